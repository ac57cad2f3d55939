package server

import (
	"fmt"
	"net/mail"
	"net/netip"
	"strings"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/control/notices"
	"github.com/ares-scheduler/ares/notify"
)

// NotifyConfig configures the notifications that users ask for with --notify. The Slack
// channels are those of alerts.channels that name the tenant.
type NotifyConfig struct {
	// MailChannel is the channel of kind email in alerts.channels whose mail server
	// and sender are used. Default: users cannot ask for mail.
	MailChannel string `yaml:"mail_channel"`
	// MailDomain completes the name of an OpenID user that is no mail address, such
	// as example.com. Default: such users get no mail.
	MailDomain string `yaml:"mail_domain"`
	// MailAddresses are addresses of identities, such as
	// token:ci=ml-team@example.com. Only they can make tokens get mail.
	MailAddresses []string `yaml:"mail_addresses"`
	// SigningKeyFile contains the key, at least 32 characters, from which the keys
	// that sign the bodies of webhooks are derived. Default: users cannot name
	// webhooks.
	SigningKeyFile string `yaml:"signing_key_file"`
	// PrivateNetworks are networks that are not public and that webhooks may reach,
	// such as 10.1.0.0/16. Default: none.
	PrivateNetworks []string `yaml:"private_networks"`
	// TenantPerMinute limits the notifications of one tenant in a minute; further
	// ones wait. Default 60, 1 to 6000.
	TenantPerMinute int `yaml:"tenant_per_minute"`
}

const minSigningKey = 32

func (c *NotifyConfig) check(alerts *AlertsConfig, p *ares.Problems) {
	if c.TenantPerMinute < 1 || c.TenantPerMinute > 6000 {
		p.Add("notifications.tenant_per_minute", "must be between 1 and 6000, got %d", c.TenantPerMinute)
	}
	if c.MailChannel != "" && alerts.mailChannel(c.MailChannel) == nil {
		p.Add("notifications.mail_channel", "%q is no channel of kind email in alerts.channels", c.MailChannel)
	}
	if _, err := c.networks(); err != nil {
		p.Add("notifications.private_networks", "%s", err)
	}
	if _, err := c.addresses(); err != nil {
		p.Add("notifications.mail_addresses", "%s", err)
	}
	if c.MailDomain != "" {
		if _, err := mail.ParseAddress("a@" + c.MailDomain); err != nil {
			p.Add("notifications.mail_domain", "%q is not the domain of a mail address", c.MailDomain)
		}
	}
}

func (c *AlertsConfig) mailChannel(name string) *ChannelConfig {
	for i := range c.Channels {
		if c.Channels[i].Name == name && c.Channels[i].Kind == "email" {
			return &c.Channels[i]
		}
	}
	return nil
}

func (c *NotifyConfig) networks() (out []netip.Prefix, err error) {
	for _, text := range c.PrivateNetworks {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, fmt.Errorf("%q is not a network: write it as 10.1.0.0/16", text)
		}
		out = append(out, p.Masked())
	}
	return out, nil
}

func (c *NotifyConfig) addresses() (map[string]string, error) {
	out := map[string]string{}
	for _, text := range c.MailAddresses {
		name, address, ok := strings.Cut(text, "=")
		parsed, err := mail.ParseAddress(address)
		if !ok || name == "" || err != nil || parsed.Address != address {
			return nil, fmt.Errorf("%q is not of the form IDENTITY=ADDRESS, such as token:ci=ml-team@example.com", text)
		}
		out[name] = address
	}
	return out, nil
}

// openNotices prepares the notifications about jobs. The notifier must exist already.
func (s *Server) openNotices() error {
	c := &s.cfg.Notify
	addresses, err := c.addresses()
	if err != nil {
		return err
	}
	networks, err := c.networks()
	if err != nil {
		return err
	}
	targets := &notices.Targets{Addresses: addresses, Domain: c.MailDomain, Channel: s.notifier}
	if ch := s.cfg.Alerts.mailChannel(c.MailChannel); ch != nil {
		opened, err := ch.channel()
		if err != nil {
			return err
		}
		targets.Mail = opened.Sender.(*notify.Mail)
	}
	if c.SigningKeyFile != "" {
		key, err := readSecret(c.SigningKeyFile)
		if err != nil {
			return fmt.Errorf("notifications.signing_key_file: %w", err)
		}
		if len(key) < minSigningKey {
			return fmt.Errorf("notifications.signing_key_file: %s has %d characters, but a key needs at least %d: make one with: openssl rand -hex 32", c.SigningKeyFile, len(key), minSigningKey)
		}
		targets.Hook = notify.NewHook([]byte(key), networks)
	}
	s.Admission.Notify = targets
	s.notices = &notices.Notices{Store: s.Store, View: s.View, Sender: targets, Now: time.Now, Log: s.log, PerMinute: c.TenantPerMinute}
	return nil
}
