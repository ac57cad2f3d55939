package machines

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ares-scheduler/ares/test/cluster"
	"github.com/ares-scheduler/ares/test/live"
)

// Toxiproxy is a process that disturbs the connections that pass through it.
type Toxiproxy struct {
	t       testing.TB
	process *cluster.Process
	api     string
}

// toxiproxyPort is the port of toxiproxy's own API.
const toxiproxyPort = 8474

// StartToxiproxy starts toxiproxy on a machine, or on the router if the machine is nil.
func StartToxiproxy(t testing.TB, logs string, on *Machine) *Toxiproxy {
	t.Helper()
	host := "127.0.0.1"
	if on != nil {
		host = on.IP
	}
	x := &Toxiproxy{t: t, api: fmt.Sprintf("http://%s:%d", host, toxiproxyPort)}
	argv := []string{live.Toxiproxy.Path(t), "-host", host, "-port", strconv.Itoa(toxiproxyPort)}
	if on != nil {
		argv = on.inside(argv)
	}
	x.process = cluster.NewProcess(t, logs, cluster.Command{Name: "toxiproxy", Argv: argv})
	live.Await(t, 30*time.Second, "toxiproxy", func() (bool, string) {
		err := x.call(http.MethodGet, "/version", nil)
		return err == nil, fmt.Sprint(err)
	})
	return x
}

// Proxy creates a proxy and returns its listening address.
func (x *Toxiproxy) Proxy(name, listen, upstream string) string {
	x.t.Helper()
	if err := x.call(http.MethodPost, "/proxies", map[string]any{"name": name, "listen": listen, "upstream": upstream, "enabled": true}); err != nil {
		x.t.Fatal(err)
	}
	return listen
}

// Spoil adds a disturbance (a toxic of toxiproxy) to one or both
// directions of a proxy. Calling the returned function removes the disturbance.
func (x *Toxiproxy) Spoil(proxy, kind string, attributes map[string]any, streams ...string) func() {
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

func (x *Toxiproxy) call(method, path string, body any) error {
	data, err := json.Marshal(body)
	if err == nil {
		_, err = Call(x.t.Context(), method, x.api+path, data)
	}
	return err
}

// Call makes a plain HTTP call and returns the answer.
func Call(ctx context.Context, method, url string, body []byte) (string, error) {
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

// End ends toxiproxy.
func (x *Toxiproxy) End() { x.process.End() }
