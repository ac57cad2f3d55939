package server

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const alertsSecret = "canary-a1e7"

func alertsFile(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestAlertsConfig checks that channels are read from the file and from the environment. Every mistake must be
// reported with its field.
func TestAlertsConfig(t *testing.T) {
	good := "alerts:\n  per_minute: 5\n  channels:\n    - {name: ops, kind: slack, url_file: /a}\n    - name: mail\n      kind: email\n      smtp_addr: m:587\n      from: a@b\n      to: [c@d]\n"
	cfg, err := Load(alertsFile(t, "ares.yaml", good), nil)
	if err != nil || cfg.Check() != nil || len(cfg.Alerts.Channels) != 2 || cfg.Alerts.Channels[1].To[0] != "c@d" || cfg.Alerts.PerMinute != 5 || cfg.Alerts.Queue != 256 {
		t.Errorf("%+v, %v, %v", cfg.Alerts, err, cfg.Check())
	}
	cfg, err = Load("", []string{"ARES_ALERTS_CHANNELS={name: ops, kind: webhook, url_file: /a}", "ARES_ALERTS_QUEUE=3"})
	if err != nil || cfg.Check() != nil || len(cfg.Alerts.Channels) != 1 || cfg.Alerts.Channels[0].Kind != "webhook" || cfg.Alerts.Queue != 3 {
		t.Errorf("%+v, %v, %v", cfg.Alerts, err, cfg.Check())
	}
	for text, want := range map[string]string{
		"  channels: [{name: a, kind: slack, url_fiel: /a}]":                                         "there is no key alerts.channels[0].url_fiel; did you mean alerts.channels[0].url_file?",
		"  channels: [{name: a, kind: pigeon}]":                                                      `alerts.channels[0].kind: "pigeon" is unknown: use slack, webhook or email`,
		"  channels: [{name: a, kind: slack}]":                                                       "alerts.channels[0].url_file: is missing",
		"  channels: [{name: a b, kind: slack, url_file: /a}]":                                       `alerts.channels[0].name: "a b" is not a name`,
		"  channels: [{name: a, kind: slack, url_file: /a}, {name: a, kind: slack, url_file: b}]":    `alerts.channels[1].name: "a" appears twice`,
		"  channels: [{name: a, kind: slack, url_file: /a, smtp_addr: b}]":                           "has keys of an email channel",
		"  channels: [{name: a, kind: email, from: a@b, to: [a@b]}]":                                 "smtp_addr",
		"  channels: [{name: a, kind: email, smtp_addr: 'm:25', from: a@b, to: [a@b], username: u}]": "give both username and password_file",
		"  channels: [{name: a, kind: email, smtp_addr: 'm:25', from: a@b, to: [a@b], url_file: u}]": "has keys of a webhook",
		"  channels: ops":      "want a list of items with keys of their own",
		"  channels: [ops]":    "alerts.channels[0]: want keys of its own",
		"  per_minute: 0":      "alerts.per_minute: must be between 1 and 600, got 0",
		"  queue: 100000":      "alerts.queue: must be between",
		"  repeat_minutes: -1": "alerts.repeat_minutes: must be between",
	} {
		cfg, err := Load(alertsFile(t, "ares.yaml", "alerts:\n"+text+"\n"), nil)
		if err == nil {
			err = cfg.Check()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestChannelSecrets checks that secrets are read from their files and appear in no error.
func TestChannelSecrets(t *testing.T) {
	url := alertsFile(t, "url", " https://hooks.example.com/"+alertsSecret+"\n")
	bad := alertsFile(t, "bad", "hooks.example.com/"+alertsSecret)
	empty := alertsFile(t, "empty", "\n")
	long := alertsFile(t, "long", strings.Repeat(alertsSecret, 5000))
	if c, err := (&ChannelConfig{Name: "ops", Kind: "slack", URLFile: url, TokenFile: url}).channel(); err != nil || c.Sender == nil {
		t.Error(err)
	}
	if c, err := (&ChannelConfig{Name: "mail", Kind: "email", SMTPAddr: "m:25", PasswordFile: url}).channel(); err != nil || c.Sender == nil {
		t.Error(err)
	}
	for want, c := range map[string]ChannelConfig{
		"alert channel ops: " + bad + ": the webhook address is not valid": {Name: "ops", Kind: "slack", URLFile: bad},
		"alert channel ops: " + empty + " is empty":                        {Name: "ops", Kind: "slack", URLFile: empty},
		"is too large for a secret":                                        {Name: "ops", Kind: "webhook", URLFile: url, TokenFile: long},
		"alert channel ops: read a secret: open /none":                     {Name: "ops", Kind: "slack", URLFile: "/none"},
		"alert channel mail: read a secret":                                {Name: "mail", Kind: "email", PasswordFile: "/none"},
	} {
		_, err := c.channel()
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), alertsSecret) {
			t.Errorf("%s: %v", want, err)
		}
	}
}
