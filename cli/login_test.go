package cli

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ares-scheduler/ares/cli/command"
)

// The type `issuer` is an OpenID issuer with the device flow. The field `answers` has the error codes with which the next
// requests for a token are answered; "" is a token.
type issuer struct {
	*httptest.Server
	mu      sync.Mutex
	answers []string
	life    time.Duration
	tokens  int
}

func newIssuer(t *testing.T, answers ...string) *issuer {
	i := &issuer{answers: answers, life: time.Hour}
	mux := http.NewServeMux()
	mux.HandleFunc("/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(map[string]any{
			"issuer": i.URL, "jwks_uri": i.URL + "/keys", "token_endpoint": i.URL + "/token", "device_authorization_endpoint": i.URL + "/device",
			"authorization_endpoint": i.URL + "/auth",
		})
	})
	mux.HandleFunc("/device", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{"device_code": "d", "user_code": "ABCD-EFGH", "verification_uri": i.URL + "/enter", "interval": 1, "expires_in": 60})
	})
	mux.HandleFunc("/token", i.token)
	i.Server = httptest.NewServer(mux)
	t.Cleanup(i.Close)
	return i
}

func (i *issuer) token(w http.ResponseWriter, _ *http.Request) {
	i.mu.Lock()
	defer i.mu.Unlock()
	code := ""
	if len(i.answers) > 0 {
		code, i.answers = i.answers[0], i.answers[1:]
	}
	w.Header().Set("Content-Type", "application/json")
	if code != "" {
		w.WriteHeader(http.StatusBadRequest)
		_ = json.NewEncoder(w).Encode(map[string]string{"error": code})
		return
	}
	i.tokens++
	claims := fmt.Sprintf(`{"sub":"ann","exp":%d}`, time.Now().Add(i.life).Unix())
	id := fmt.Sprintf("e30.%s.signature%d", base64.RawURLEncoding.EncodeToString([]byte(claims)), i.tokens)
	_ = json.NewEncoder(w).Encode(map[string]any{"access_token": "a", "token_type": "Bearer", "expires_in": 60, "id_token": id, "refresh_token": "refresh-me"})
}

// inContext serves f and makes it the server of the context "lab". The data directory of the machine has an admin token,
// which must never be sent to the servers of a context.
func inContext(t *testing.T, f *fake, flags ...string) (server, config string) {
	t.Helper()
	dir := serve(t, f)
	var at command.Endpoints
	data, err := os.ReadFile(filepath.Join(dir, "server.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err = json.Unmarshal(data, &at); err != nil {
		t.Fatal(err)
	}
	home := t.TempDir()
	t.Setenv("ARES_DATA_DIR", "")
	t.Setenv("ARES_CONTEXT", "")
	t.Setenv("XDG_CONFIG_HOME", filepath.Join(home, "config"))
	t.Setenv("XDG_DATA_HOME", filepath.Join(home, "data"))
	if err = os.MkdirAll(filepath.Join(home, "data", "ares"), 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(home, "data", "ares", "admin.token"), "admin-secret\n")
	if code, _, stderr := run(t, append([]string{"context", "add", "lab", "--server", at.GRPC}, flags...)...); code != 0 {
		t.Fatal(stderr)
	}
	return at.GRPC, filepath.Join(home, "config", "ares", "config.yaml")
}

// TestLogin logs in at an issuer and checks that the token goes to the servers of its context, and to no other.
func TestLogin(t *testing.T) {
	f := &fake{}
	_, config := inContext(t, f, "--tenant-id", "vision", "--queue", "training")
	if code, _, stderr := run(t, "submit", "--", "x"); code != 0 || f.token != "" {
		t.Fatalf("before the login: exit %d, %s, the server got %q", code, stderr, f.token)
	}
	i := newIssuer(t, "authorization_pending", "")
	code, stdout, stderr := run(t, "login", "--issuer", i.URL, "--client-id", "ares")
	if code != 0 || stdout != "" || !strings.Contains(stderr, "Open "+i.URL+"/enter and enter the code ABCD-EFGH\n") || !strings.Contains(stderr, "logged in to the context lab until ") {
		t.Fatalf("login: exit %d, %q, %q", code, stdout, stderr)
	}
	if strings.Contains(stderr, "e30.") || strings.Contains(stderr, "refresh-me") {
		t.Errorf("login prints the token: %s", stderr)
	}
	if code, _, stderr = run(t, "submit", "--", "x"); code != 0 || !strings.HasPrefix(f.token, "Bearer e30.") || !strings.HasSuffix(f.token, "signature1") {
		t.Errorf("after the login: exit %d, %s, the server got %q", code, stderr, f.token)
	}
	if spec := f.specs[len(f.specs)-1]; spec.GetTenantId() != "vision" || spec.GetQueue() != "training" {
		t.Errorf("the job has not the tenant and queue of the context: %v", spec)
	}
	if code, _, _ = run(t, "submit", "--tenant-id", "other", "--", "x"); code != 0 || f.specs[len(f.specs)-1].GetQueue() != "" {
		t.Errorf("the job of another tenant has the queue of the context: %v", f.specs[len(f.specs)-1])
	}
	code, stdout, _ = run(t, "whoami")
	for _, want := range []string{"Context      lab (current in " + config + ")", "a login until ", "context lab", "vision", "training"} {
		if !strings.Contains(stdout, want) {
			t.Errorf("whoami (exit %d) does not show %q:\n%s", code, want, stdout)
		}
	}
	if strings.Contains(stdout, "e30.") {
		t.Errorf("whoami prints the token:\n%s", stdout)
	}
	st, err := os.Stat(config)
	if err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("the configuration has mode %v, %v", st.Mode(), err)
	}
	if code, _, stderr = run(t, "logout"); code != 0 || !strings.Contains(stderr, "logged out of the context lab") {
		t.Errorf("logout: exit %d, %s", code, stderr)
	}
	f.token = "none"
	if code, _, _ = run(t, "submit", "--", "x"); code != 0 || f.token != "" {
		t.Errorf("after the logout: exit %d, the server got %q", code, f.token)
	}
}

// TestTokenStaysInItsContext checks that the token of a context is not sent to a server that the user names otherwise.
func TestTokenStaysInItsContext(t *testing.T) {
	mine, other := &fake{}, &fake{}
	server, config := inContext(t, mine)
	write(t, filepath.Join(filepath.Dir(config), "lab.token"), "lab-secret")
	if code, _, stderr := run(t, "context", "add", "lab", "--server", server, "--token-file", filepath.Join(filepath.Dir(config), "lab.token")); code != 0 {
		t.Fatal(stderr)
	}
	xdg := os.Getenv("XDG_CONFIG_HOME")
	dir := serve(t, other)
	t.Setenv("ARES_DATA_DIR", "")
	t.Setenv("XDG_CONFIG_HOME", xdg)
	var at command.Endpoints
	data, err := os.ReadFile(filepath.Join(dir, "server.json"))
	if err == nil {
		err = json.Unmarshal(data, &at)
	}
	if err != nil {
		t.Fatal(err)
	}
	if code, _, stderr := run(t, "submit", "--", "x"); code != 0 || mine.token != "Bearer lab-secret" {
		t.Errorf("exit %d, %s, the server of the context got %q", code, stderr, mine.token)
	}
	for _, args := range [][]string{{"--context", "lab", "--server", at.GRPC}, {"--context", "lab", "--server", server + "," + at.GRPC}} {
		other.token, mine.token = "none", "none"
		code, _, stderr := run(t, append(args, "submit", "--", "x")...)
		if strings.Contains(other.token+mine.token, "secret") {
			t.Errorf("%v: exit %d, %s, the servers got %q and %q", args, code, stderr, mine.token, other.token)
		}
	}
}

// TestLoginFails checks what a user is told about a login that fails.
func TestLoginFails(t *testing.T) {
	inContext(t, &fake{})
	gone := newIssuer(t)
	gone.Close()
	for _, c := range []struct{ issuer, want string }{
		{newIssuer(t, "access_denied").URL, "the login was denied at "},
		{newIssuer(t, "expired_token").URL, `the code expired before it was entered: run "ares login" again`},
		{newIssuer(t, "invalid_client").URL, "check --client-id"},
		{gone.URL, "does not answer as an OpenID issuer"},
		{"http://issuer.example.com", "must begin with https://"},
	} {
		if code, _, stderr := run(t, "login", "--issuer", c.issuer, "--client-id", "ares"); code != 1 || !strings.Contains(stderr, c.want) {
			t.Errorf("%s: exit %d, %s, want %s", c.issuer, code, stderr, c.want)
		}
	}
	if code, _, stderr := run(t, "login"); code != 1 || !strings.Contains(stderr, "the context lab has no issuer: run: ares login --issuer") {
		t.Errorf("without an issuer: exit %d, %s", code, stderr)
	}
	if code, _, stderr := run(t, "context", "use", "--none"); code != 0 {
		t.Fatal(stderr)
	}
	if code, _, stderr := run(t, "login"); code != 1 || !strings.Contains(stderr, "no context is chosen") {
		t.Errorf("without a context: exit %d, %s", code, stderr)
	}
}

// TestLoginIsRenewed checks that an expired login is renewed, and that the user is told if it cannot be.
func TestLoginIsRenewed(t *testing.T) {
	f := &fake{}
	inContext(t, f)
	i := newIssuer(t)
	i.life = time.Second // less than the time before the end at which a login is renewed
	if code, _, stderr := run(t, "login", "--issuer", i.URL, "--client-id", "ares"); code != 0 {
		t.Fatal(stderr)
	}
	i.life = time.Hour
	if code, _, stderr := run(t, "submit", "--", "x"); code != 0 || !strings.HasPrefix(f.token, "Bearer e30.") || strings.HasSuffix(f.token, "signature1") {
		t.Errorf("exit %d, %s, the server got %q", code, stderr, f.token)
	}
	before := i.tokens
	if code, _, _ := run(t, "submit", "--", "x"); code != 0 || i.tokens != before {
		t.Errorf("the renewed login was not stored: exit %d, %d tokens after %d", code, i.tokens, before)
	}
}

func TestContexts(t *testing.T) {
	_, config := inContext(t, &fake{})
	for _, c := range []struct {
		args, want string
		code       int
	}{
		{"context add -bad --server x:1", "unknown shorthand flag", 2},
		{"context add a/b --server x:1", "is not a name for a context", 2},
		{"context add two", "--server is missing", 2},
		{"context add two --server http://x", "use the gRPC address as host:port", 2},
		{"context use nope", `there is no context "nope": use one of lab`, 1},
		{"context remove nope", `there is no context "nope": use one of lab`, 1},
		{"--context nope ps", `there is no context "nope": use one of lab`, 1},
	} {
		if code, _, stderr := run(t, strings.Fields(c.args)...); code != c.code || !strings.Contains(stderr, c.want) {
			t.Errorf("ares %s: exit %d, %s, want %d, %s", c.args, code, stderr, c.code, c.want)
		}
	}
	if code, _, stderr := run(t, "context", "add", "two", "--server", "gpu.example.com:9090"); code != 0 || !strings.Contains(stderr, "ares context use two") {
		t.Errorf("add: exit %d, %s", code, stderr)
	}
	if code, stdout, _ := run(t, "context", "list"); code != 0 || !strings.Contains(stdout, "*        lab") || !strings.Contains(stdout, "two   gpu.example.com:9090") {
		t.Errorf("list: exit %d\n%s", code, stdout)
	}
	if err := os.Chmod(config, 0o644); err != nil {
		t.Fatal(err)
	}
	if code, _, stderr := run(t, "ps"); code != 1 || !strings.Contains(stderr, "run: chmod 600 "+config) {
		t.Errorf("a world-readable configuration: exit %d, %s", code, stderr)
	}
	t.Setenv("ARES_SERVER", "127.0.0.1:1") // then the configuration is not needed
	if _, _, stderr := run(t, "ps"); strings.Contains(stderr, "chmod") {
		t.Error(stderr)
	}
}
