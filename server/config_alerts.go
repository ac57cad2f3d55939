package server

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/notify"
)

// AlertsConfig configures alerts.
type AlertsConfig struct {
	// Channels are the ways to tell them.
	Channels []ChannelConfig `yaml:"channels"`
	// PerMinute limits the alerts that a channel sends in a minute; further
	// alerts wait. Default 20, 1 to 600.
	PerMinute int `yaml:"per_minute"`
	// TenantPerMinute limits the alerts in a minute that a channel accepts from
	// the policies of one tenant; further alerts are dropped and counted. Default
	// 4, 1 to 600.
	TenantPerMinute int `yaml:"tenant_per_minute"`
	// RepeatMinutes is the time in which the same alert is sent only once.
	// Default 10, 1 to 10080.
	RepeatMinutes int `yaml:"repeat_minutes"`
	// Queue is the number of alerts that wait for a channel; further alerts are
	// dropped and counted. Default 256, 1 to 10000.
	Queue int `yaml:"queue"`
}

// ChannelConfig is one destination of alerts. Secrets are in files, which
// the server reads when it starts.
type ChannelConfig struct {
	// Name is the name of the channel in policies.
	Name string `yaml:"name"`
	// Kind is slack (or a service that accepts its {"text": …}), webhook or
	// email.
	Kind string `yaml:"kind"`
	// URLFile contains the address of a Slack channel or webhook, which is a
	// secret.
	URLFile string `yaml:"url_file"`
	// TokenFile contains a bearer token for a webhook.
	TokenFile string `yaml:"token_file"`
	// SMTPAddr is the mail server, such as mail.example.com:587, or
	// smtps://mail.example.com:465 for TLS from the start.
	SMTPAddr string `yaml:"smtp_addr"`
	// From is the sender of mail, such as ares@example.com.
	From string `yaml:"from"`
	// To are the recipients of mail.
	To []string `yaml:"to"`
	// Username is the user for the mail server.
	Username string `yaml:"username"`
	// PasswordFile contains the password of that user.
	PasswordFile string `yaml:"password_file"`
	// Tenants are the tenants whose policies may use the channel; * stands for
	// all tenants. Policies of the platform may use every channel. Default: no
	// tenant.
	Tenants []string `yaml:"tenants"`
	// NoTLS allows a mail server without STARTTLS. Default false.
	NoTLS bool `yaml:"no_tls"`
}

// maxChannels is the maximum number of channels. maxSecretBytes is the maximum
// size of a file with a secret.
const (
	maxChannels    = 32
	maxSecretBytes = 16 << 10
)

func defaultAlerts() AlertsConfig {
	return AlertsConfig{PerMinute: 20, TenantPerMinute: 4, RepeatMinutes: 10, Queue: 256}
}

func (c *AlertsConfig) check(p *ares.Problems) {
	for _, r := range []intRange{
		{"alerts.per_minute", c.PerMinute, 1, 600},
		{"alerts.tenant_per_minute", c.TenantPerMinute, 1, 600},
		{"alerts.repeat_minutes", c.RepeatMinutes, 1, 10_080},
		{"alerts.queue", c.Queue, 1, 10_000},
		{"alerts.channels", len(c.Channels), 0, maxChannels},
	} {
		if r.v < r.lo || r.v > r.hi {
			p.Add(r.key, "must be between %d and %d, got %d", r.lo, r.hi, r.v)
		}
	}
	var names []string
	for i := range c.Channels {
		ch := &c.Channels[i]
		at := fmt.Sprintf("alerts.channels[%d]", i)
		if !ares.ValidName(ch.Name) {
			p.Add(at+".name", "%q is not a name: use letters, digits, '.', '-' and '_', at most 63", ch.Name)
		}
		if slices.Contains(names, ch.Name) {
			p.Add(at+".name", "%q appears twice", ch.Name)
		}
		names = append(names, ch.Name)
		ch.check(at, p)
	}
}

func (c *ChannelConfig) check(at string, p *ares.Problems) {
	for _, t := range c.Tenants {
		if t != notify.AnyTenant && !ares.ValidName(t) {
			p.Add(at+".tenants", "%q is not the name of a tenant: use names, or * for all tenants", t)
		}
	}
	hook, mail := c.URLFile+c.TokenFile != "", c.SMTPAddr+c.From+c.Username+c.PasswordFile != "" || len(c.To) > 0 || c.NoTLS
	switch c.Kind {
	case "slack", "webhook":
		if c.URLFile == "" {
			p.Add(at+".url_file", "is missing: name the file that holds the address")
		}
		if mail {
			p.Add(at, "has keys of an email channel: use kind: email, or leave them out")
		}
	case "email":
		if err := (&notify.Mail{Addr: c.SMTPAddr, From: c.From, To: c.To, Plain: c.NoTLS}).Check(); err != nil {
			p.Add(at, "%s", err)
		}
		if (c.Username == "") != (c.PasswordFile == "") {
			p.Add(at, "give both username and password_file, or neither")
		}
		if hook {
			p.Add(at, "has keys of a webhook: use kind: webhook, or leave them out")
		}
	default:
		p.Add(at+".kind", "%q is unknown: use slack, webhook or email", c.Kind)
	}
}

// This method reads the secrets of the channel from their files and returns the
// channel.
func (c *ChannelConfig) channel() (notify.Channel, error) {
	out := notify.Channel{Name: c.Name, Kind: c.Kind, Tenants: c.Tenants}
	if c.Kind == "email" {
		password, err := readSecret(c.PasswordFile)
		out.Sender = &notify.Mail{Addr: c.SMTPAddr, From: c.From, To: c.To, Username: c.Username, Password: password, Plain: c.NoTLS}
		return out, c.in(err)
	}
	address, err := readSecret(c.URLFile)
	if err != nil {
		return out, c.in(err)
	}
	token, err := readSecret(c.TokenFile)
	if err != nil {
		return out, c.in(err)
	}
	hook, err := notify.NewWebhook(address, token, c.Kind == "slack")
	if err != nil {
		return out, fmt.Errorf("alert channel %s: %s: %w", c.Name, c.URLFile, err)
	}
	out.Sender = hook
	return out, nil
}

func (c *ChannelConfig) in(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("alert channel %s: %w", c.Name, err)
}

// readSecret reads a secret from its file. If the path is empty, the secret is
// "".
func readSecret(path string) (string, error) {
	if path == "" {
		return "", nil
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("read a secret: %w", err)
	}
	text := strings.TrimSpace(string(data))
	switch {
	case text == "":
		return "", fmt.Errorf("%s is empty", path)
	case len(text) > maxSecretBytes:
		return "", errors.New(path + " is too large for a secret")
	}
	return text, nil
}
