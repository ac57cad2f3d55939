package many

import (
	"bufio"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/client"
	"github.com/ares-scheduler/ares/test/cluster"
)

const masterKey = "0123456789abcdef0123456789abcdef"

// smtpServer is a real SMTP listener. It sends each mail that it accepts to the channel.
func smtpServer(t *testing.T) (addr string, mails <-chan string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	out := make(chan string, 16)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go receiveMail(conn, out)
		}
	}()
	return l.Addr().String(), out
}

func receiveMail(conn net.Conn, out chan<- string) {
	defer conn.Close()
	fmt.Fprint(conn, "220 test\r\n")
	var all strings.Builder
	data := false
	for lines := bufio.NewScanner(conn); lines.Scan(); {
		line := lines.Text()
		all.WriteString(line + "\n")
		switch {
		case data && line == ".":
			data = false
			fmt.Fprint(conn, "250 ok\r\n")
			out <- all.String()
		case data:
		case line == "DATA":
			data = true
			fmt.Fprint(conn, "354 go on\r\n")
		case line == "QUIT":
			fmt.Fprint(conn, "221 bye\r\n")
			return
		default:
			fmt.Fprint(conn, "250 ok\r\n")
		}
	}
}

// hook is a request that the webhook has got.
type hook struct {
	header  http.Header
	body    []byte
	healthy bool // it was answered with success
}

// TestNotifications cancels jobs that ask for notifications by mail and by a webhook. The webhook fails until the server
// was killed and started again, and then gets the event with the ID of the first try and a valid signature.
func TestNotifications(t *testing.T) {
	t.Parallel()
	smtp, mails := smtpServer(t)
	var healthy atomic.Bool
	hooks := make(chan hook, 64)
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		well := healthy.Load()
		if !well {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		select {
		case hooks <- hook{r.Header, body, well}:
		default:
		}
	}))
	defer receiver.Close()
	key := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(key, []byte(masterKey), 0o600); err != nil {
		t.Fatal(err)
	}
	c := cluster.Start(t, cluster.Servers(1), cluster.Config(fmt.Sprintf(`
alerts:
  channels: [{name: post, kind: email, smtp_addr: %q, from: ares@example.com, to: [ops@example.com], no_tls: true}]
notifications:
  mail_channel: post
  mail_addresses: ["token:default/ann=ann@example.com"]
  signing_key_file: %q
  private_networks: [127.0.0.0/8]
`, smtp, key)))
	root := c.Client(c.Servers[0])
	token, err := root.CreateToken(t.Context(), &apipb.CreateTokenRequest{
		Name: "ann", TenantId: "default", Bindings: []*apipb.Binding{{Role: "submitter", TenantId: "default"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	user := c.ClientWith(client.Options{Attempts: 8, Token: token.GetToken()}, c.Servers[0])
	for text, want := range map[string]string{
		"end=slack": "has no Slack channel", "end=https://10.0.0.1/x": "not public", "end=http://example.com/": "https://", "never=mail": "is unknown",
	} {
		_, err := user.Submit(t.Context(), &apipb.JobSpec{Command: []string{"true"}, Notify: []string{text}})
		if ares.CodeOf(err) != ares.Invalid || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
	if _, err := root.Submit(t.Context(), &apipb.JobSpec{Command: []string{"true"}, Notify: []string{"end=mail"}}); err == nil || !strings.Contains(err.Error(), "mail address") {
		t.Errorf("mail to a token without an address: %v", err)
	}
	submitted, err := user.Submit(t.Context(), &apipb.JobSpec{
		Name: "@channel http://x", Command: []string{"true"}, GpuCount: 1, Notify: []string{"end,fail=mail", "end=" + receiver.URL},
	})
	if err != nil {
		t.Fatal(err)
	}
	id := submitted.GetJobId()
	if _, err := user.Cancel(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	mail := <-mails
	if !strings.Contains(mail, "RCPT TO:<ann@example.com>") || !strings.Contains(mail, id) || strings.Contains(mail, "http://x") || strings.Contains(mail, "ops@example.com") {
		t.Errorf("mail: %s", mail)
	}
	first := <-hooks
	c.Servers[0].Kill()
	healthy.Store(true)
	c.Servers[0].Start()
	c.Servers[0].AwaitReady()
	got := next(t, hooks, first.header.Get("Ares-Event-Id"))
	var event struct {
		ID    string `json:"event_id"`
		Job   string `json:"job_id"`
		State string `json:"state"`
	}
	if err := json.Unmarshal(got.body, &event); err != nil || event.Job != id || event.State != "cancelled" || event.ID != first.header.Get("Ares-Event-Id") {
		t.Errorf("%v: %s after %v", err, got.body, first.header)
	}
}

// next returns the first request of a healthy webhook for an event. Requests before it may be tries that failed.
func next(t *testing.T, hooks <-chan hook, id string) hook {
	for h := range hooks {
		if verified(h) == nil || h.header.Get("Ares-Event-Id") != id {
			t.Errorf("a request with a wrong signature or event: %v %s", h.header, h.body)
		}
		if h.healthy {
			return h
		}
	}
	return hook{}
}

// verified returns the body of a request if its signature is right.
func verified(h hook) []byte {
	stamp, signature, _ := strings.Cut(strings.TrimPrefix(h.header.Get("Ares-Signature"), "t="), ",v1=")
	sign := func(key, data string) string {
		m := hmac.New(sha256.New, []byte(key))
		m.Write([]byte(data))
		return hex.EncodeToString(m.Sum(nil))
	}
	if sign(sign(masterKey, "tenant:default"), stamp+"."+string(h.body)) != signature {
		return nil
	}
	return h.body
}
