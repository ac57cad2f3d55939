package notify_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/notify"
)

// `patience` is the maximum time that a test waits. Only a failing test waits that long.
const patience = time.Minute

// `canary` is part of every address and token in these tests, and must not appear in any output.
const canary = "canary-51c9"

var alert = notify.Alert{
	Key: "policy */budget tenant vision", Title: "Ares: policy budget rejected", Text: "vision has used <!channel> 100 & more", At: time.Date(2026, 1, 15, 12, 0, 0, 0, time.UTC),
	Details: []notify.Detail{{Name: "tenant", Value: "vision"}, {Name: "user", Value: "oidc:ann"}},
}

// `hook` is a webhook server that records requests and sends the answers that a test has set.
type hook struct {
	*httptest.Server

	mu     sync.Mutex
	answer func(n int) int // the status for the n-th request, from 1
	bodies []string
	heads  []http.Header
	came   chan struct{} // receives a value for each request
}

func newHook(t *testing.T, answer func(n int) int) *hook {
	t.Helper()
	h := &hook{answer: answer, came: make(chan struct{}, 1000)}
	h.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		h.mu.Lock()
		h.bodies, h.heads = append(h.bodies, string(body)), append(h.heads, r.Header)
		status := h.answer(len(h.bodies))
		h.mu.Unlock()
		h.came <- struct{}{}
		if status == 0 { // does not answer until the client disconnects
			<-r.Context().Done()
			return
		}
		if status == http.StatusFound {
			w.Header().Set("Location", "/elsewhere")
		}
		w.WriteHeader(status)
	}))
	t.Cleanup(h.Close)
	return h
}

// This method returns the request bodies that the webhook has received so far.
func (h *hook) got() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.bodies
}

// The method `await` waits until the webhook receives a request.
func (h *hook) await(t *testing.T) {
	t.Helper()
	select {
	case <-h.came:
	case <-time.After(patience):
		t.Fatal("the webhook was not called in time")
	}
}

func always(status int) func(int) int { return func(int) int { return status } }

func (h *hook) sender(t *testing.T, slack bool) *notify.Webhook {
	t.Helper()
	w, err := notify.NewWebhook(h.URL+"/services/"+canary, canary, slack)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// `bench` is a running notifier with its log and the outcomes of its alerts.
type bench struct {
	*notify.Notifier

	now  time.Time
	mu   sync.Mutex
	log  bytes.Buffer
	said chan string
	stop func()
}

func (b *bench) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.log.Write(p)
}

func (b *bench) logged() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.log.String()
}

func start(t *testing.T, s notify.Sender, change func(*notify.Options)) *bench {
	t.Helper()
	b := &bench{now: alert.At, said: make(chan string, 1000)}
	opts := notify.DefaultOptions()
	opts.Backoff, opts.MaxWait, opts.Timeout, opts.PerMinute = time.Millisecond, 4*time.Millisecond, patience, 60_000
	opts.Now, opts.Log = func() time.Time { return b.now }, slog.New(slog.NewTextHandler(b, nil))
	opts.Observe = func(channel, outcome string) { b.said <- channel + " " + outcome }
	if change != nil {
		change(&opts)
	}
	b.Notifier = notify.New([]notify.Channel{{Name: "ops", Kind: "slack", Sender: s}}, opts)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := b.Run(ctx); err != nil {
			t.Error(err)
		}
	}()
	b.stop = func() { cancel(); <-done }
	t.Cleanup(b.stop)
	return b
}

func (b *bench) await(t *testing.T, want string) {
	t.Helper()
	select {
	case got := <-b.said:
		if got != want {
			t.Fatalf("an alert became %q, want %q; log %s", got, want, b.logged())
		}
	case <-time.After(patience):
		t.Fatalf("no alert became %q in time", want)
	}
}

// TestSlack checks that the body is in Slack's format and that user text in it is escaped.
func TestSlack(t *testing.T) {
	h := newHook(t, always(200))
	if err := h.sender(t, true).Send(t.Context(), alert); err != nil {
		t.Fatal(err)
	}
	var got map[string]string
	if err := json.Unmarshal([]byte(h.got()[0]), &got); err != nil {
		t.Fatal(err)
	}
	want := "*Ares: policy budget rejected*\nvision has used &lt;!channel&gt; 100 &amp; more\n• tenant: vision\n• user: oidc:ann"
	if len(got) != 1 || got["text"] != want {
		t.Errorf("got %q", got)
	}
	if h.heads[0].Get("Content-Type") != "application/json" || h.heads[0].Get("Authorization") != "Bearer "+canary {
		t.Errorf("headers %v", h.heads[0])
	}
}

// TestWebhook checks that the body has a separate field for each part of an alert.
func TestWebhook(t *testing.T) {
	h := newHook(t, always(204))
	a := alert
	a.Repeats = 3
	if err := h.sender(t, false).Send(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	want := `{"title":"Ares: policy budget rejected","text":"vision has used \u003c!channel\u003e 100 \u0026 more","at":"2026-01-15T12:00:00Z",` +
		`"key":"policy */budget tenant vision","repeats":3,"details":{"tenant":"vision","user":"oidc:ann"}}`
	if h.got()[0] != want {
		t.Errorf("got %s", h.got()[0])
	}
}

// TestRecovers uses a webhook server that first fails, then answers too late, and then recovers. The server must get
// the alert exactly once.
func TestRecovers(t *testing.T) {
	h := newHook(t, func(n int) int { return []int{500, 0, 429, 200}[n-1] })
	b := start(t, h.sender(t, true), func(o *notify.Options) { o.Timeout = 5 * time.Second }) // only the late answer reaches it
	b.Tell("ops", alert)
	b.await(t, "ops sent")
	if len(h.got()) != 4 || strings.Contains(b.logged(), canary) {
		t.Errorf("%d requests; log %s", len(h.got()), b.logged())
	}
	if s := b.Status()[0]; s.Sent != 1 || s.LastError != "" || s.Failed != 0 {
		t.Errorf("%+v", s)
	}
}

// TestGivesUp checks that the notifier drops an alert after every attempt has failed. The log line about this must
// contain no address. The notifier must try to send the next alert with the same key.
func TestGivesUp(t *testing.T) {
	h := newHook(t, always(503))
	b := start(t, h.sender(t, true), func(o *notify.Options) { o.Tries = 3 })
	for range 2 {
		b.Tell("ops", alert)
		b.await(t, "ops failed")
	}
	if len(h.got()) != 6 {
		t.Errorf("%d requests", len(h.got()))
	}
	if s := b.Status()[0]; s.Failed != 2 || s.LastError != "the webhook answered with status 503" {
		t.Errorf("%+v", s)
	}
	if log := b.logged(); !strings.Contains(log, "answered with status 503") || strings.Contains(log, canary) || strings.Contains(log, h.URL) {
		t.Errorf("log %s", log)
	}
}

// TestRefused checks that a permanent rejection is not retried and that redirects are not followed.
func TestRefused(t *testing.T) {
	for _, status := range []int{400, 401, 404, 410, http.StatusFound} {
		h := newHook(t, always(status))
		b := start(t, h.sender(t, true), nil)
		b.Tell("ops", alert)
		b.await(t, "ops failed")
		if len(h.got()) != 1 {
			t.Errorf("%d: %d requests", status, len(h.got()))
		}
		b.stop()
	}
}

// TestRepeats checks that alerts with the same key are sent only once in a window. The next alert must say how many
// were suppressed. An alert with a different key must be sent immediately.
func TestRepeats(t *testing.T) {
	h := newHook(t, always(200))
	b := start(t, h.sender(t, true), nil)
	other := alert
	other.Key = "another"
	b.Tell("ops", alert)
	b.await(t, "ops sent")
	for range 3 {
		b.Tell("ops", alert)
		b.await(t, "ops repeated")
	}
	b.Tell("ops", other)
	b.await(t, "ops sent")
	b.now = b.now.Add(10 * time.Minute)
	b.Tell("ops", alert)
	b.await(t, "ops sent")
	if last := h.got()[len(h.got())-1]; len(h.got()) != 3 || !strings.Contains(last, "3 more like it were not sent") {
		t.Errorf("%d requests, the last %s", len(h.got()), last)
	}
}

// TestFull checks that callers are not delayed by a channel that does not answer. If the queue is full, a new alert
// must be dropped and counted. Alerts that are still queued when the notifier stops must be counted as dropped too.
func TestFull(t *testing.T) {
	h := newHook(t, always(0))
	b := start(t, h.sender(t, true), func(o *notify.Options) { o.Queue, o.Timeout = 4, time.Minute })
	tell := func(key string) {
		a := alert
		a.Key = key
		b.Tell("ops", a)
	}
	tell("first")
	h.await(t)
	for _, key := range []string{"a", "b", "c", "d", "over"} {
		tell(key)
	}
	b.await(t, "ops dropped")
	b.stop()
	for range 5 {
		b.await(t, "ops dropped")
	}
	if s := b.Status()[0]; s.Dropped != 6 || s.Sent != 0 {
		t.Errorf("%+v", s)
	}
}

// TestPace checks the limit of alerts per minute.
func TestPace(t *testing.T) {
	h := newHook(t, always(200))
	b := start(t, h.sender(t, true), func(o *notify.Options) { o.PerMinute = 4 }) // one at once, then one every 15 s
	for _, key := range []string{"a", "b", "c"} {
		a := alert
		a.Key = key
		b.Tell("ops", a)
	}
	b.await(t, "ops sent")
	b.stop()
	if s := b.Status()[0]; s.Sent != 1 || s.Dropped != 2 {
		t.Errorf("%+v", s)
	}
}

// TestUnknownChannel checks that an alert for a missing channel is counted, and logged once.
func TestUnknownChannel(t *testing.T) {
	b := start(t, newHook(t, always(200)).sender(t, true), nil)
	for range 3 {
		b.Tell("pager", alert)
		b.await(t, "pager unknown")
	}
	if n := strings.Count(b.logged(), "pager"); n != 1 {
		t.Errorf("said %d times: %s", n, b.logged())
	}
}

// TestTest checks that testing a channel returns the result and reveals no secret.
func TestTest(t *testing.T) {
	h := newHook(t, func(n int) int { return []int{200, 500}[n-1] })
	b := start(t, h.sender(t, true), nil)
	if err := b.Test(t.Context(), "ops", "ann"); err != nil {
		t.Error(err)
	}
	if !strings.Contains(h.got()[0], "requested by: ann") {
		t.Errorf("body %s", h.got()[0])
	}
	if err := b.Test(t.Context(), "ops", "ann"); ares.CodeOf(err) != ares.Unavailable || !strings.Contains(err.Error(), "answered with status 500") {
		t.Error(err)
	}
	h.Close()
	err := b.Test(t.Context(), "ops", "ann")
	if ares.CodeOf(err) != ares.Unavailable || !strings.Contains(err.Error(), "refused") || strings.Contains(err.Error(), canary) || strings.Contains(err.Error(), "127.0.0.1") {
		t.Error(err)
	}
	if err = b.Test(t.Context(), "none", "ann"); ares.CodeOf(err) != ares.NotFound {
		t.Error(err)
	}
}

// TestBadAddress checks that an invalid address is rejected. The error must not contain the address.
func TestBadAddress(t *testing.T) {
	for _, address := range []string{"", canary, "ftp://host/" + canary, "https:///" + canary, "http://[" + canary} {
		if _, err := notify.NewWebhook(address, "", true); err == nil || strings.Contains(err.Error(), canary) {
			t.Errorf("%q: %v", address, err)
		}
	}
}
