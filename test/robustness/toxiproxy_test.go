package robustness_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ares-scheduler/ares/test/live"
)

// toxiproxy sits on the router between some agents and the servers and spoils
// their connections.
type toxiproxy struct {
	t   testing.TB
	cmd *exec.Cmd
	api string
}

func startToxiproxy(t testing.TB, logs string) *toxiproxy {
	t.Helper()
	log, err := os.Create(filepath.Join(logs, "toxiproxy.log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	x := &toxiproxy{t: t, api: fmt.Sprintf("http://127.0.0.1:%d", proxyAPI)}
	x.cmd = exec.Command(live.Program(t, "ARES_TEST_TOXIPROXY", "../../.bin/toxiproxy", "make tools"), "-host", "127.0.0.1", "-port", fmt.Sprint(proxyAPI))
	x.cmd.Stdout, x.cmd.Stderr = log, log
	if err = x.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	live.Await(t, 30*time.Second, "toxiproxy", func() (bool, string) {
		err = x.call(http.MethodGet, "/version", nil)
		return err == nil, fmt.Sprint(err)
	})
	return x
}

// proxy passes connections on and returns where it listens.
func (x *toxiproxy) proxy(name, listen, upstream string) string {
	x.t.Helper()
	if err := x.call(http.MethodPost, "/proxies", map[string]any{"name": name, "listen": listen, "upstream": upstream, "enabled": true}); err != nil {
		x.t.Fatal(err)
	}
	return listen
}

// spoil adds a toxic to both directions of a proxy, or to one, until the
// returned function is called.
func (x *toxiproxy) spoil(proxy, kind string, attributes map[string]any, streams ...string) func() {
	for _, stream := range streams {
		err := x.call(http.MethodPost, "/proxies/"+proxy+"/toxics", map[string]any{
			"name": kind + "-" + stream, "type": kind, "stream": stream, "attributes": attributes,
		})
		if err != nil {
			x.t.Error(err)
		}
	}
	return func() {
		for _, stream := range streams {
			// It can take long to end while connections hang in it, and then to be told.
			live.Await(x.t, time.Minute, "the end of a toxic", func() (bool, string) {
				err := x.call(http.MethodDelete, "/proxies/"+proxy+"/toxics/"+kind+"-"+stream, nil)
				return err == nil || strings.Contains(err.Error(), "404"), fmt.Sprint(err)
			})
		}
	}
}

func (x *toxiproxy) call(method, path string, body any) error {
	data, err := json.Marshal(body)
	if err == nil {
		_, err = call(x.t.Context(), method, x.api+path, data)
	}
	return err
}

// call makes a plain HTTP call and returns what was answered.
func call(ctx context.Context, method, url string, body []byte) (string, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return "", err
	}
	resp, err := (&http.Client{}).Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode >= 300 {
		err = fmt.Errorf("%s %s: %s: %s", method, url, resp.Status, answer)
	}
	return string(answer), err
}

func (x *toxiproxy) end() {
	_ = x.cmd.Process.Kill()
	_ = x.cmd.Wait() // killed
}
