package notify

import (
	"context"
	"slices"

	ares "github.com/ares-scheduler/ares"
)

// SlackFor returns the name of the Slack channel that gets the notifications about a tenant's jobs: the first channel, by
// name, that names the tenant, otherwise the first one that is open to all tenants. It returns "" if there is none.
func (n *Notifier) SlackFor(tenant string) string {
	open := ""
	for _, name := range n.names {
		switch c := n.channels[name]; {
		case c.Kind != "slack":
		case slices.Contains(c.Tenants, tenant):
			return name
		case open == "" && slices.Contains(c.Tenants, AnyTenant):
			open = name
		}
	}
	return open
}

// SendJob sends a notification about a job through a channel, once. The caller limits the rate of each tenant and repeats
// what fails.
func (n *Notifier) SendJob(ctx context.Context, name string, a Alert) error {
	c := n.channels[name]
	if c == nil {
		return ares.Errorf(ares.Invalid, "this server has no Slack channel for the tenant any more")
	}
	return n.sendOnce(ctx, c, a.cleaned())
}

// SendTo sends a mail to one address instead of the recipients of the channel.
func (m *Mail) SendTo(ctx context.Context, to string, a Alert) error {
	one := *m
	one.To = []string{to}
	return one.Send(ctx, a.cleaned())
}
