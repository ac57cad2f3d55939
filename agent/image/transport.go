//go:build linux

package image

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"syscall"
	"time"
)

const (
	// answerTime limits the wait for the header of an answer, and for each part of its body.
	answerTime = 30 * time.Second
	// maxManifest limits every answer that is not a blob. Registries themselves allow 4 MiB.
	maxManifest = 4 << 20
)

// errAddress means that a registry led to an address that no image may come from.
var errAddress = errors.New("the address is not allowed for images")

// metadata are the addresses at which clouds tell a machine its own credentials, beside those of its own link.
var metadata = []netip.Addr{netip.MustParseAddr("fd00:ec2::254"), netip.MustParseAddr("100.100.100.200"), netip.MustParseAddr("192.0.0.192")}

// mayDial refuses the addresses of a cloud's metadata. It sees the address after the name was resolved, so no name and no redirect evades
// it. With `redirected`, it refuses this machine's own services too.
func mayDial(address string, redirected bool) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return err
	}
	ip := at.Addr().WithZone("").Unmap()
	bad := ip.IsLinkLocalUnicast() || ip.IsMulticast() || ip.IsUnspecified() || redirected && ip.IsLoopback()
	for _, m := range metadata {
		bad = bad || ip == m
	}
	if bad {
		return fmt.Errorf("%w: %s", errAddress, ip)
	}
	return nil
}

// A guard is the transport of all requests to registries. It limits the addresses, the time without an answer and the size of answers.
type guard struct{ direct, redirected *http.Transport }

func newGuard() *guard { return &guard{guarded(false), guarded(true)} }

func guarded(redirected bool) *http.Transport {
	d := &net.Dialer{Timeout: answerTime, Control: func(_, address string, _ syscall.RawConn) error { return mayDial(address, redirected) }}
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.DialContext, t.ResponseHeaderTimeout, t.TLSHandshakeTimeout = d.DialContext, answerTime, answerTime
	t.DisableCompression = true // a layer must arrive as it is named
	return t
}

// RoundTrip is for http.RoundTripper.
func (g *guard) RoundTrip(req *http.Request) (*http.Response, error) {
	t := g.direct
	if from := req.Response; from != nil && from.Request != nil && from.Request.URL.Host != req.URL.Host {
		t = g.redirected
	}
	ctx, cancel := context.WithCancelCause(req.Context())
	resp, err := t.RoundTrip(req.WithContext(ctx))
	if err != nil {
		cancel(nil)
		return nil, err
	}
	b := &slowBody{ReadCloser: resp.Body, cancel: cancel, limit: maxManifest}
	if isBlob(req) {
		b.limit = 0 // the reader of a blob knows its size
	}
	b.timer = time.AfterFunc(answerTime, b.tooSlow)
	resp.Body = b
	return resp, nil
}

// isBlob reports whether a request, or the request that was redirected to it, is for a layer.
func isBlob(req *http.Request) bool {
	for req != nil {
		if blobPath.MatchString(req.URL.Path) {
			return true
		}
		if req.Response == nil {
			return false
		}
		req = req.Response.Request
	}
	return false
}

// A slowBody ends an answer that stops or that is larger than its limit.
type slowBody struct {
	io.ReadCloser
	cancel context.CancelCauseFunc
	timer  *time.Timer
	limit  int64 // 0: none
	read   int64
}

func (b *slowBody) tooSlow() {
	b.cancel(fmt.Errorf("no data for %s", answerTime))
}

// Read is for io.Reader.
func (b *slowBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.timer.Reset(answerTime)
	if b.read += int64(n); b.limit > 0 && b.read > b.limit {
		return n, fmt.Errorf("the answer is larger than %d bytes", b.limit)
	}
	return n, err
}

// Close is for io.Closer.
func (b *slowBody) Close() error {
	b.timer.Stop()
	b.cancel(nil)
	return b.ReadCloser.Close()
}
