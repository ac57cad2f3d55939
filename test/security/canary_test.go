package security

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/test/cluster"
	"github.com/ares-scheduler/ares/test/live"
)

// This function returns a secret that must not appear in any output of Ares. No
// secret contains another secret.
func bird(name string) string { return "canary-" + name + "-f7e1c0" }

// A `cage` records where each secret was put, and everything that Ares has
// written since then.
type cage struct {
	*testServer
	t     *testing.T
	birds map[string]string // by what they are
	seen  map[string]string // texts, by where they come from
}

// TestCanary puts a secret into every possible place and lets jobs run and fail.
// It then searches for the secrets in every log, event, metric, audit entry and
// crash dump.
func TestCanary(t *testing.T) {
	t.Parallel()
	c := &cage{t: t, birds: map[string]string{}, seen: map[string]string{}}
	for _, name := range []string{"environment", "webhook", "bearer", "smtp", "redis", "policy", "subject", "secret", "secret file"} {
		c.birds[name] = bird(name)
	}
	secrets := t.TempDir()
	config := fmt.Sprintf("alerts: {channels: [{name: hook, kind: webhook, url_file: %s, token_file: %s}, {name: mail, kind: email, smtp_addr: \"%s\", from: a@example.com, to: [b@example.com], username: ares, password_file: %s}]}\n",
		write(t, secrets, "hook", "http://"+live.FreeAddr(t)+"/"+c.birds["webhook"]), write(t, secrets, "bearer", c.birds["bearer"]), live.FreeAddr(t), write(t, secrets, "smtp", c.birds["smtp"])) +
		fmt.Sprintf("redis: {url: \"redis://ares:%s@%s/0\"}\nauth: {oidc: {issuer: \"http://%s\", audience: ares}}\n", c.birds["redis"], live.FreeAddr(t), live.FreeAddr(t))
	c.testServer = startServer(t, config)
	agent := c.Run("agent", []string{"GOTRACEBACK=all"}, c.Ares, "agent", "--server", c.grpc, "--tls-ca", c.CertFile, "--token-file", c.Path("server/node.token"), "--node", "n1", "--mock", "dgx-h100", "--log-level", "debug", "--data-dir", c.Path("agent"))
	c.birds["admin token"], c.birds["node token"] = c.admin, c.node
	c.birds["service token"] = c.token(t, "ci", "default", "submitter", 3600)
	c.birds["join token"] = c.do(t, http.MethodPost, "/api/v1/join-tokens", `{"node_id":"n9","ttl_seconds":600}`)["token"].(string)
	c.do(t, http.MethodPut, "/api/v1/policies", `{"name":"names","on":"submission","rule":"job.name != \"forbidden\" || job.queue == \"`+c.birds["policy"]+`\"","why":"`+c.birds["policy"]+`","message":"not this name","alert":["hook","mail"]}`)
	for name, bird := range map[string]string{"hub": "secret", "pair": "secret file"} {
		c.do(t, http.MethodPut, "/api/v1/secrets/"+name, fmt.Sprintf(`{"data":{"value":%q}}`, base64.StdEncoding.EncodeToString([]byte(c.birds[bird]))))
	}
	c.digests()
	events := c.listen()
	c.work()
	c.mistakes()
	c.seen["events"] = events()
	c.collect()
	c.broken("postgres", "history: {url: \"postgres://ares:%s@"+live.FreeAddr(t)+"/ares?sslmode=disable&connect_timeout=1\"}\n")
	c.broken("etcd", "etcd: {endpoints: [\"http://"+live.FreeAddr(t)+"\"], username: ares, password: \"%s\", timeout_seconds: 1}\n")
	for name, p := range map[string]*cluster.Process{"server": c.server.Process, "agent": agent} {
		p.Stop(syscall.SIGQUIT, cluster.Patience)
		text := p.Log()
		if !strings.Contains(text, "SIGQUIT") || !strings.Contains(text, "goroutine ") {
			t.Errorf("%s left no crash dump", name)
		}
		c.seen["log and crash dump of "+name] = text
	}
	c.files("audit", c.Path("server/audit"))
	c.files("history", c.Path("server"))
	c.planted("server", "agent", "backup.db")
	c.search()
}

// This method adds the digests of the secrets and of the requests with them. Somebody who reads a digest could try passwords
// until the digest matches.
func (c *cage) digests() {
	c.t.Helper()
	for name, bird := range map[string]string{"hub": "secret", "pair": "secret file"} {
		value := []byte(c.birds[bird])
		sum := sha256.Sum256(value)
		c.birds["digest of the "+bird], c.birds["short digest of the "+bird] = fmt.Sprintf("%x", sum), base64.StdEncoding.EncodeToString(sum[:])
		for _, tenant := range []string{"", "default"} {
			req, err := proto.MarshalOptions{Deterministic: true}.Marshal(&apipb.PutSecretRequest{Name: name, TenantId: tenant, Data: map[string][]byte{"value": value}})
			if err != nil {
				c.t.Fatal(err)
			}
			c.birds["digest of the request with the "+bird+" of tenant "+tenant] = fmt.Sprintf("%x", sha256.Sum256(req))
		}
	}
}

// This method runs three jobs with a secret in their environment. One job
// succeeds, one fails, and one cannot be started.
func (c *cage) work() {
	c.t.Helper()
	ids := map[string]string{}
	for kind, command := range map[string]string{"succeeds": `["true"]`, "fails": `["sh","-c","exit 3"]`, "cannot start": `["/nonexistent/program"]`} {
		got := c.do(c.t, http.MethodPost, "/api/v1/jobs", fmt.Sprintf(`{"request_id":"r-%d","name":"j","command":%s,"gpu_count":1,"environment":{"SECRET":%q},"secrets":[{"name":"hub","env":"HUB"},{"name":"pair","file":"pair"}]}`, len(ids), command, c.birds["environment"]))
		ids[kind] = got["job_id"].(string)
	}
	for kind, id := range ids {
		live.Await(c.t, time.Minute, "the end of a job that "+kind, func() (bool, string) {
			got := c.do(c.t, http.MethodGet, "/api/v1/jobs/"+id, "")
			return !strings.Contains("pending queued scheduled starting running retrying", fmt.Sprint(got["state"])), fmt.Sprint(got["state"])
		})
		for _, what := range []string{"events", "explain"} {
			got, err := c.ask(c.t.Context(), c.admin, http.MethodGet, "/api/v1/jobs/"+id+"/"+what, "", nil)
			c.seen[what+" of a job that "+kind] = fmt.Sprint(got.body, err)
		}
	}
}

// This method makes invalid requests that contain secrets. The error messages
// must not repeat these secrets.
func (c *cage) mistakes() {
	c.t.Helper()
	secret := c.birds["environment"]
	for name, call := range map[string][3]string{
		"a job that a policy refuses": {"POST", "/api/v1/jobs", `{"request_id":"m1","name":"forbidden","command":["true"],"environment":{"SECRET":"` + secret + `"}}`},
		"a variable with a bad name":  {"POST", "/api/v1/jobs", `{"request_id":"m2","name":"j","command":["true"],"environment":{"SE=CRET":"` + secret + `"}}`},
		"a variable that is too long": {"POST", "/api/v1/jobs", `{"request_id":"m3","name":"j","command":["true"],"environment":{"SECRET":"` + strings.Repeat(secret, 10_000) + `"}}`},
		"a body that is no JSON":      {"POST", "/api/v1/jobs", `{"environment":{"SECRET":"` + secret + `"`},
		"a variable that is a list":   {"POST", "/api/v1/jobs", `{"request_id":"m4","environment":{"SECRET":["` + secret + `"]}}`},
		"a secret without a name":     {"PUT", "/api/v1/secrets/" + "%20", `{"data":{"value":"` + c.birds["secret"] + `"}}`},
		"a secret that is no base64":  {"PUT", "/api/v1/secrets/bad", `{"data":{"value":"` + c.birds["secret"] + `!"}}`},
		"a secret that is too long":   {"PUT", "/api/v1/secrets/bad", `{"data":{"value":"` + base64.StdEncoding.EncodeToString([]byte(strings.Repeat(c.birds["secret"], 10_000))) + `"}}`},
		"a secret in the wrong place": {"PUT", "/api/v1/secrets/bad", `{"value":"` + c.birds["secret"] + `"}`},
		"the secrets":                 {"GET", "/api/v1/secrets", ""},
		"a rotation":                  {"POST", "/api/v1/secrets:rotate-key", `{}`},
		"a channel that fails":        {"POST", "/api/v1/alerts/channels/hook:test", `{}`},
		"mail that fails":             {"POST", "/api/v1/alerts/channels/mail:test", `{}`},
		"the channels":                {"GET", "/api/v1/alerts/channels", ""},
		"the tokens":                  {"GET", "/api/v1/tokens", ""},
		"the join tokens":             {"GET", "/api/v1/join-tokens", ""},
	} {
		got, err := c.ask(c.t.Context(), c.admin, call[0], call[1], call[2], nil)
		if err != nil {
			c.t.Errorf("%s: %v", name, err)
		}
		c.seen["the answer to "+name] = got.body
	}
	for _, name := range []string{"a channel that fails", "mail that fails"} {
		if text := c.seen["the answer to "+name]; !strings.Contains(text, "refused") {
			c.t.Errorf("%s: nothing is said of why: %s", name, text)
		}
	}
	for _, token := range []string{"eyJhbGciOiJSUzI1NiJ9." + c.birds["subject"] + ".c2ln", c.birds["subject"]} {
		got, err := c.ask(c.t.Context(), token, http.MethodGet, "/api/v1/jobs", "", nil)
		if err != nil || got.code/100 == 2 {
			c.t.Errorf("a token of nobody's: %v %d", err, got.code)
		}
		c.seen["the answer to a bad token "+token[:3]] = got.body
	}
}

// This method reads events until the returned function is called.
func (c *cage) listen() func() string {
	c.t.Helper()
	ctx, stop := context.WithCancel(c.t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+c.http+"/api/v1/events", nil)
	if err != nil {
		c.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+c.admin)
	resp, err := (&http.Client{Transport: c.web.Transport}).Do(req)
	if err != nil {
		c.t.Fatal(err)
	}
	done := make(chan string)
	go func() {
		defer resp.Body.Close()
		data, _ := io.ReadAll(resp.Body) // until it is stopped
		done <- string(data)
	}()
	return func() string {
		stop()
		text := <-done
		if !strings.Contains(text, "job-") {
			c.t.Errorf("no events were seen: %q", text)
		}
		return text
	}
}

// This method reads the metrics, the audit log and a dump of the store.
func (c *cage) collect() {
	c.t.Helper()
	req, err := http.NewRequestWithContext(c.t.Context(), http.MethodGet, "https://"+c.metrics+"/metrics", nil)
	if err != nil {
		c.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+c.admin)
	resp, err := c.web.Do(req)
	if err != nil {
		c.t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil || !bytes.Contains(data, []byte("ares_audit_entries_total")) {
		c.t.Errorf("metrics: %v %s", err, data)
	}
	c.seen["metrics"] = string(data)
	for _, args := range [][]string{{"audit", "export"}, {"audit", "list", "-o", "json"}, {"token", "list", "-o", "json"}, {"secret", "list", "-o", "json"}, {"debug", "dump", "secrets"}, {"backup", c.Path("backup.db")}, {"node", "token", "list", "-o", "json"}, {"doctor"}} {
		out, err := c.run(c.t, args...)
		if err != nil && args[0] == "audit" {
			c.t.Errorf("ares %v: %v %s", args, err, out)
		}
		c.seen["ares "+strings.Join(args, " ")] = out
	}
}

// This method starts a server that depends on an unavailable external service,
// and reads the server's log.
func (c *cage) broken(name, config string) {
	c.t.Helper()
	c.birds[name] = bird(name)
	file := write(c.t, c.Dir, name+".yaml", fmt.Sprintf("data_dir: %s\nhttp_addr: %s\ngrpc_addr: %s\nmetrics_addr: %s\nlog: {level: debug}\n"+config,
		c.Path("of-"+name), live.FreeAddr(c.t), live.FreeAddr(c.t), live.FreeAddr(c.t), c.birds[name]))
	p := c.Run(name, []string{"GOTRACEBACK=all"}, c.Ares, "server", "--config", file)
	live.Await(c.t, 30*time.Second, "a word of the missing "+name, func() (bool, string) {
		text := p.Log()
		return strings.Contains(text, "refused") || strings.Contains(text, "exceeded"), text
	})
	p.Stop(syscall.SIGQUIT, cluster.Patience) // it may have ended by itself
	c.seen["log of a server without its "+name] = p.Log()
}

// The method `files` reads the files of the audit log or of the history database.
func (c *cage) files(kind, dir string) {
	c.t.Helper()
	n := 0
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || kind == "history" && !strings.Contains(strings.ToLower(d.Name()), "history") {
			return err
		}
		data, err := os.ReadFile(path)
		c.seen[kind+" file "+d.Name()] = string(data)
		n++
		return err
	})
	if err != nil || n == 0 {
		c.t.Errorf("%d files of the %s: %v", n, kind, err)
	}
}

// This method searches for secrets of SecretService in every file below the given directories: the store itself, the
// agent's directory and a backup. The output of jobs is not among them, because these jobs print nothing.
func (c *cage) planted(names ...string) {
	c.t.Helper()
	for _, name := range names {
		n := 0
		err := filepath.WalkDir(c.Path(name), func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return err
			}
			data, err := os.ReadFile(path)
			for _, bird := range []string{"secret", "secret file"} {
				if bytes.Contains(data, []byte(c.birds[bird])) || bytes.Contains(data, []byte(base64.StdEncoding.EncodeToString([]byte(c.birds[bird])))) {
					c.t.Errorf("the %s is in the file %s", bird, path)
				}
			}
			n++
			return err
		})
		if err != nil || n == 0 {
			c.t.Errorf("%d files of %s: %v", n, name, err)
		}
	}
}

// This method searches for every secret in all collected texts.
func (c *cage) search() {
	c.t.Helper()
	for where, text := range c.seen {
		for what, secret := range c.birds {
			if i := strings.Index(text, secret); i >= 0 {
				c.t.Errorf("the %s is in %s: …%q…", what, where, text[max(0, i-120):min(len(text), i+len(secret)+60)])
			}
		}
	}
	c.t.Logf("%d secrets, %d places", len(c.birds), len(c.seen))
}
