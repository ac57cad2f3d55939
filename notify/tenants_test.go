package notify_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ares-scheduler/ares/notify"
)

// startWith runs a notifier with one channel, which some tenants may use.
func startWith(t *testing.T, h *hook, tenants []string, change func(*notify.Options)) *bench {
	t.Helper()
	b := start(t, h.sender(t, true), change)
	b.stop()
	opts := notify.DefaultOptions()
	opts.PerMinute = 60_000
	opts.Now = func() time.Time { return b.now }
	opts.Observe = func(channel, outcome string) { b.said <- channel + " " + outcome }
	if change != nil {
		change(&opts)
	}
	b.Notifier = notify.New([]notify.Channel{{Name: "ops", Kind: "slack", Sender: h.sender(t, true), Tenants: tenants}}, opts)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = b.Run(t.Context()) // it ends with the test
	}()
	t.Cleanup(func() { <-done })
	return b
}

func ofTenant(tenant string, n int) notify.Alert {
	a := alert
	a.Key, a.Tenant, a.Policy = fmt.Sprint("policy ", tenant, "/", n), tenant, fmt.Sprint("p", n)
	return a
}

// TestOnlyAllowedTenants checks that a channel accepts alerts of the platform and of the tenants in its list.
func TestOnlyAllowedTenants(t *testing.T) {
	h := newHook(t, always(200))
	for _, c := range []struct {
		tenants []string
		from    string
		want    string
	}{
		{nil, "", "ops sent"},
		{nil, "red", "ops forbidden"},
		{[]string{"blue"}, "red", "ops forbidden"},
		{[]string{"blue"}, "blue", "ops sent"},
		{[]string{notify.AnyTenant}, "red", "ops sent"},
	} {
		b := startWith(t, h, c.tenants, nil)
		if allowed := b.Allows("ops", c.from); allowed != (c.want == "ops sent") {
			t.Errorf("%v allows %q: %v", c.tenants, c.from, allowed)
		}
		b.Tell("ops", ofTenant(c.from, 1))
		b.await(t, c.want)
		if s := b.Status()[0]; (s.Dropped == 1) != (c.want == "ops forbidden") {
			t.Errorf("%s: the status is %+v", c.want, s)
		}
	}
}

// TestRateOfATenant checks that one tenant's policies cannot flood a channel. Other tenants and the platform are not affected.
func TestRateOfATenant(t *testing.T) {
	h := newHook(t, always(200))
	b := startWith(t, h, []string{notify.AnyTenant}, func(o *notify.Options) { o.PerTenant = 3 })
	last := 0
	count := func(from string, n int) (sent, limited int) {
		for range n {
			last++ // so that no alert is a repeated one
			b.Tell("ops", ofTenant(from, last))
			switch got := <-b.said; got {
			case "ops sent":
				sent++
			case "ops limited":
				limited++
			default:
				t.Errorf("an alert became %q", got)
			}
		}
		return sent, limited
	}
	if sent, limited := count("red", 40); sent != 3 || limited != 37 {
		t.Errorf("red sent %d alerts, and %d were limited", sent, limited)
	}
	if s := b.Status()[0]; s.Dropped != 37 {
		t.Errorf("the status is %+v", s)
	}
	if sent, _ := count("blue", 3); sent != 3 {
		t.Errorf("blue sent %d alerts", sent)
	}
	if sent, _ := count("", 40); sent != 40 {
		t.Errorf("the platform sent %d alerts", sent)
	}
	b.now = b.now.Add(20 * time.Second)
	if sent, _ := count("red", 40); sent != 1 {
		t.Errorf("after a third of a minute, red sent %d alerts", sent)
	}
}

// TestOriginIsVisible checks that a tenant's text cannot pass for one of the platform: it has no control characters, lines or
// links, a bounded length, and its origin stands before it.
func TestOriginIsVisible(t *testing.T) {
	h := newHook(t, always(200))
	b := startWith(t, h, []string{"red"}, nil)
	a := ofTenant("red", 1)
	a.Title = "Ares: policy p1 warned"
	a.Text = "ok\x1b[2J\u202e\r\n*Ares: the leader is lost*\nlog in at https://evil.example " + strings.Repeat("x", 5000)
	for i := range 40 {
		a.Details = append(a.Details, notify.Detail{Name: "job", Value: fmt.Sprint(i, "\nplatform: ", strings.Repeat("y", 2000))})
	}
	b.Tell("ops", a)
	b.await(t, "ops sent")
	got := h.got()[0]
	if len(got) > 8000 {
		t.Errorf("the message has %d bytes", len(got))
	}
	for _, bad := range []string{`\u001b`, "\u202e", `\r`, "https://", `\n*Ares: the leader`, `\nplatform`} {
		if strings.Contains(got, bad) {
			t.Errorf("the message has %q: %.400s", bad, got)
		}
	}
	if want := `{"text":"*[tenant red] Ares: policy p1 warned*\nwritten by tenant red: ` + "`ok"; !strings.HasPrefix(got, want) {
		t.Errorf("the message begins %.200s", got)
	}
	if !strings.Contains(got, "origin: `tenant red, policy p1`") {
		t.Errorf("the message does not show its origin: %.1600s", got)
	}
}

// TestNoMentions checks that what users wrote cannot become a mention, a link or markup, in the text of a tenant's policy and in
// the details and messages of the platform's own policies.
func TestNoMentions(t *testing.T) {
	for _, slack := range []bool{true, false} {
		h := newHook(t, always(200))
		b := startWith(t, h, []string{"red"}, nil)
		if !slack {
			b = start(t, h.sender(t, false), nil)
		}
		evil := "@channel x@everyone <!here> (@all) [log in](//evil.example) www.evil.example mailto:x `*_~ <https://evil.example|ok>"
		a := ofTenant("red", 1)
		a.Text, a.Details = evil, []notify.Detail{{Name: "job", Value: evil}}
		if !slack {
			a.Tenant = "" // of the platform, with a message that quotes the job
			a.Written = true
		}
		b.Tell("ops", a)
		b.await(t, "ops sent")
		got := strings.ToLower(h.got()[0])
		for _, bad := range []string{"@channel", "@everyone", "<!here>", "@all", "](", "://", "www.", "mailto:"} {
			if strings.Contains(got, bad) {
				t.Errorf("slack %v: the message has %q: %s", slack, bad, got)
			}
		}
		if n := strings.Count(got, "`"); slack && n != 6 {
			t.Errorf("the text and the two details are not shown as they are: %d marks in %s", n, got)
		}
	}
}

// TestATenantsAlertDelaysNoOther checks that an alert of a tenant that a service does not accept holds up neither the alerts of
// the platform nor the repeated ones among them.
func TestATenantsAlertDelaysNoOther(t *testing.T) {
	h := newHook(t, func(n int) int {
		if n == 1 {
			return 0 // no answer
		}
		return 200
	})
	b := startWith(t, h, []string{"red"}, func(o *notify.Options) { o.Timeout = patience })
	b.Tell("ops", ofTenant("red", 1))
	h.await(t)
	b.Tell("ops", alert)
	b.await(t, "ops sent")
}

// TestKeysOfTenants checks that tenants cannot suppress each other's alerts with equal keys, and that the alerts of tenants do
// not make a channel forget which alerts of the platform were sent.
func TestKeysOfTenants(t *testing.T) {
	opts := notify.DefaultOptions()
	opts.PerTenant, opts.Queue = 60_000, 20_000
	b := notify.New([]notify.Channel{{Name: "ops", Kind: "slack", Tenants: []string{notify.AnyTenant}}}, opts) // it need not send them
	b.Tell("ops", alert)
	for i := range 11_000 {
		a := ofTenant("red", i)
		a.Key = fmt.Sprint("key ", i)
		b.Tell("ops", a)
	}
	b.Tell("ops", alert)
	if got := b.Status()[0].Repeated; got != 1 {
		t.Errorf("%d alerts are repeated ones, want the platform's second one", got)
	}
	for _, tenant := range []string{"blue", "green"} {
		a := ofTenant(tenant, 1)
		a.Key = "the same"
		b.Tell("ops", a)
	}
	if got := b.Status()[0].Repeated; got != 1 {
		t.Error("an alert of green is a repetition of one of blue")
	}
}

// TestUnknownChannelsOfTenants checks that a tenant's policy cannot create metrics or log lines with names of its choice.
func TestUnknownChannelsOfTenants(t *testing.T) {
	h := newHook(t, always(200))
	b := start(t, h.sender(t, true), nil)
	for i := range 3 {
		b.Tell(fmt.Sprint("invented", i), ofTenant("red", i))
		b.await(t, "(unknown) unknown")
	}
	if strings.Contains(b.logged(), "invented") {
		t.Errorf("logged: %s", b.logged())
	}
}
