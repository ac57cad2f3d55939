package robustness_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/ares-scheduler/ares/test/cluster"
	"github.com/ares-scheduler/ares/test/live"
)

// `toxiproxy` is a process on the router that disturbs the connections between some
// agents and the servers.
type toxiproxy struct {
	t       testing.TB
	process *cluster.Process
	api     string
}

func startToxiproxy(t testing.TB, logs string) *toxiproxy {
	t.Helper()
	x := &toxiproxy{t: t, api: fmt.Sprintf("http://127.0.0.1:%d", proxyAPI)}
	x.process = cluster.NewProcess(t, logs, cluster.Command{
		Name: "toxiproxy", Argv: []string{live.Toxiproxy.Path(t), "-host", "127.0.0.1", "-port", fmt.Sprint(proxyAPI)},
	})
	live.Await(t, 30*time.Second, "toxiproxy", func() (bool, string) {
		err := x.call(http.MethodGet, "/version", nil)
		return err == nil, fmt.Sprint(err)
	})
	return x
}

// `proxy` creates a proxy and returns its listening address.
func (x *toxiproxy) proxy(name, listen, upstream string) string {
	x.t.Helper()
	if err := x.call(http.MethodPost, "/proxies", map[string]any{"name": name, "listen": listen, "upstream": upstream, "enabled": true}); err != nil {
		x.t.Fatal(err)
	}
	return listen
}

// The method `spoil` adds a disturbance (a toxic of toxiproxy) to one or both
// directions of a proxy. Calling the returned function removes the disturbance.
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
			// While connections hang, toxiproxy may need a long time to remove a toxic.
			// The removal becomes visible only after a further delay.
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

// This function makes a plain HTTP call and returns the answer.
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

func (x *toxiproxy) end() { x.process.End() }
