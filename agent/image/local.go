//go:build linux

package image

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	ares "github.com/ares-scheduler/ares"
)

// SocketFile is the name of the socket in the agent's directory on which it serves its images. Only the agent's own user may connect, so
// every caller may see the images of all tenants.
const SocketFile = "images.sock"

// message is one line of an answer.
type message struct {
	Progress *Progress `json:"progress,omitempty"`
	Listed   []Listed  `json:"listed,omitempty"`
	Digest   string    `json:"digest,omitempty"`
	Bytes    int64     `json:"bytes,omitempty"`
	Error    string    `json:"error,omitempty"`
	Code     ares.Code `json:"code,omitempty"`
}

// Serve answers the commands of this machine's administrator until ctx ends. The argument is the agent's directory.
func (s *Store) Serve(ctx context.Context, dir string) error {
	path := filepath.Join(dir, SocketFile)
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	old := syscall.Umask(0o177) // the socket is closed to others from its first moment on
	l, err := net.Listen("unix", path)
	syscall.Umask(old)
	if err != nil {
		return fmt.Errorf("serve the node's images on %s: %w", path, err)
	}
	srv := &http.Server{Handler: s.handler(), ReadHeaderTimeout: answerTime, BaseContext: func(net.Listener) context.Context { return ctx }}
	stop := context.AfterFunc(ctx, func() { _ = srv.Close() })
	defer stop()
	if err = srv.Serve(l); errors.Is(err, http.ErrServerClosed) {
		err = nil
	}
	return err
}

func (s *Store) handler() http.Handler {
	mux := http.NewServeMux()
	answer := func(w http.ResponseWriter, m message, err error) {
		if err != nil {
			m.Error, m.Code = err.Error(), ares.CodeOf(err)
		}
		_ = json.NewEncoder(w).Encode(m) // the caller may have gone
	}
	mux.HandleFunc("GET /images", func(w http.ResponseWriter, r *http.Request) {
		list, err := s.List(r.FormValue("tenant"))
		answer(w, message{Listed: list}, err)
	})
	mux.HandleFunc("DELETE /images", func(w http.ResponseWriter, r *http.Request) {
		bytes, err := s.Remove(r.FormValue("tenant"), r.FormValue("image"))
		answer(w, message{Bytes: bytes}, err)
	})
	mux.HandleFunc("POST /images", func(w http.ResponseWriter, r *http.Request) {
		ref, err := Parse(r.FormValue("image"))
		var i *Image
		var writing sync.Mutex
		if err == nil {
			i, err = s.Get(r.Context(), Request{Reference: ref, Tenant: r.FormValue("tenant"), Progress: func(p Progress) {
				writing.Lock()
				defer writing.Unlock()
				answer(w, message{Progress: &p}, nil)
				_ = http.NewResponseController(w).Flush()
			}})
		}
		var m message
		if err == nil {
			m.Digest = i.Digest
			i.Release()
		}
		writing.Lock()
		defer writing.Unlock()
		answer(w, m, err)
	})
	return mux
}

// Local reaches the images of the agent on this machine.
type Local struct{ Dir string }

// List returns the images of one tenant, or of all tenants with "".
func (l Local) List(ctx context.Context, tenant string) ([]Listed, error) {
	m, err := l.call(ctx, http.MethodGet, url.Values{"tenant": {tenant}}, nil)
	return m.Listed, err
}

// Pull fetches an image with the credentials of a tenant, and returns its digest.
func (l Local) Pull(ctx context.Context, tenant, name string, progress func(Progress)) (digest string, err error) {
	m, err := l.call(ctx, http.MethodPost, url.Values{"tenant": {tenant}, "image": {name}}, progress)
	return m.Digest, err
}

// Remove removes an image of one tenant, or of all tenants with "", and returns how much of the disk that has freed.
func (l Local) Remove(ctx context.Context, tenant, name string) (bytes int64, err error) {
	m, err := l.call(ctx, http.MethodDelete, url.Values{"tenant": {tenant}, "image": {name}}, nil)
	return m.Bytes, err
}

func (l Local) call(ctx context.Context, method string, values url.Values, progress func(Progress)) (message, error) {
	path := filepath.Join(l.Dir, SocketFile)
	t := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{Timeout: 5 * time.Second}).DialContext(ctx, "unix", path)
	}}
	defer t.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, method, "http://agent/images?"+values.Encode(), nil)
	if err != nil {
		return message{}, err
	}
	resp, err := t.RoundTrip(req)
	if errors.Is(err, os.ErrPermission) {
		return message{}, ares.Errorf(ares.Forbidden, "only the user of the agent may see its images: run the command as root")
	}
	if err != nil {
		return message{}, ares.Errorf(ares.Unavailable, "no agent that runs images answers at %s: run the command on the node, with the agent's --data-dir (%v)", path, err)
	}
	defer resp.Body.Close()
	for d := json.NewDecoder(resp.Body); ; {
		var m message
		switch err := d.Decode(&m); {
		case errors.Is(err, io.EOF):
			return m, ares.Errorf(ares.Unavailable, "the agent ended before its answer: try again")
		case err != nil:
			return m, err
		case m.Error != "":
			return m, ares.Errorf(m.Code, "%s", m.Error)
		case m.Progress == nil:
			return m, nil
		case progress != nil:
			progress(*m.Progress)
		}
	}
}
