package notify

import (
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
)

// TestHookAddresses checks which addresses the webhooks of users may reach.
func TestHookAddresses(t *testing.T) {
	h := NewHook([]byte("key"), []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16")})
	for text, ok := range map[string]bool{
		"93.184.216.34": true, "2606:2800:220:1:248:1893:25c8:1946": true, "10.1.2.3": true, "::ffff:10.1.2.3": true,
		"127.0.0.1": false, "::1": false, "10.2.0.1": false, "172.16.0.1": false, "192.168.1.1": false, "169.254.169.254": false, "100.64.0.1": false,
		"0.0.0.0": false, "::": false, "fd00::1": false, "fe80::1": false, "224.0.0.1": false, "ff02::1": false, "255.255.255.255": false,
		"::ffff:127.0.0.1": false, "::ffff:169.254.169.254": false, "64:ff9b::7f00:1": false, "2002:7f00:1::": false, "::127.0.0.1": false, "198.18.0.1": false,
	} {
		if err := h.CheckAddress(netip.MustParseAddr(text)); (err == nil) != ok {
			t.Errorf("%s: %v", text, err)
		}
	}
	for target, ok := range map[string]bool{
		"https://example.com/hook": true, "http://example.com/hook": false, "https://127.0.0.1/": false, "https://[::1]/": false,
		"http://10.1.2.3/": true, "http://10.2.2.3/": false, "https://169.254.169.254/latest": false,
	} {
		if err := h.CheckURL(&ares.NotifyRule{Target: target}); (err == nil) != ok {
			t.Errorf("%s: %v", target, err)
		}
	}
}

// TestHookPost checks the signature of a body, that a name which resolves to a private address is refused when it is
// connected to, and that redirects are not followed.
func TestHookPost(t *testing.T) {
	var got *http.Request
	var body []byte
	calls := 0
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls++
		got = r
		body, _ = io.ReadAll(r.Body)
		if r.URL.Path == "/away" {
			http.Redirect(w, r, "/hook", http.StatusTemporaryRedirect)
		}
	}))
	defer receiver.Close()
	now := time.Unix(1_800_000_000, 0)
	event := map[string]string{"event": "end"}
	h := NewHook([]byte("master"), []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")})
	if err := h.Post(t.Context(), receiver.URL+"/hook", "vision", "id-1", event, now); err != nil {
		t.Fatal(err)
	}
	key := TenantKey([]byte("master"), "vision")
	want := "t=1800000000,v1=" + hex.EncodeToString(sign([]byte(key), append([]byte("1800000000."), body...)))
	if got.Header.Get("Ares-Signature") != want || got.Header.Get("Ares-Event-Id") != "id-1" || !json.Valid(body) || key == TenantKey([]byte("master"), "red") {
		t.Errorf("%v %s", got.Header, body)
	}
	if err := h.Post(t.Context(), receiver.URL+"/away", "vision", "id-1", event, now); ares.CodeOf(err) != ares.Invalid || calls != 2 {
		t.Errorf("a redirect: %v after %d calls", err, calls)
	}
	strict := NewHook([]byte("master"), nil)
	for _, target := range []string{receiver.URL, strings.Replace(receiver.URL, "127.0.0.1", "localhost", 1)} {
		err := strict.Post(t.Context(), target, "vision", "id-1", event, now)
		if ares.CodeOf(err) != ares.Invalid || !strings.Contains(err.Error(), "not public") || strings.Contains(err.Error(), "127.0.0.1") {
			t.Errorf("%s: %v", target, err)
		}
	}
	if calls != 2 {
		t.Errorf("the receiver got %d calls", calls)
	}
}
