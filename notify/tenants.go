package notify

import (
	"slices"
	"strings"
	"time"
	"unicode"

	"golang.org/x/time/rate"

	ares "github.com/ares-scheduler/ares"
)

// Policies of tenants can cause alerts, and a tenant chooses the text of its policies and the names of its jobs. People who
// read a channel must not take such a text for one of the platform, and it must not crowd out other alerts.

// AnyTenant in Channel.Tenants stands for all tenants. It is not a valid name.
const AnyTenant = "*"

// These constants limit the parts of an alert, in bytes.
const (
	maxTitle   = 200
	maxText    = 1000
	maxDetail  = 256
	maxDetails = 16
)

// Allows reports whether the policies of a tenant may use a channel. The platform, which has the empty name, may use every
// channel.
func (n *Notifier) Allows(name, tenant string) bool {
	c := n.channels[name]
	return c != nil && c.allows(tenant)
}

func (c *channel) allows(tenant string) bool {
	return tenant == "" || slices.Contains(c.Tenants, tenant) || slices.Contains(c.Tenants, AnyTenant)
}

// hasTurn reports whether a channel accepts another alert of a tenant now.
func (c *channel) hasTurn(tenant string, now time.Time, perMinute int) bool {
	if tenant == "" {
		return true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	pace := c.paces[tenant]
	if pace == nil {
		if len(c.paces) >= maxKeys {
			clear(c.paces)
		}
		pace = rate.NewLimiter(rate.Every(time.Minute/time.Duration(perMinute)), perMinute)
		c.paces[tenant] = pace
	}
	return pace.AllowN(now, 1)
}

// The method `cleaned` returns an alert that is safe to show. It has no control characters, and each part has a bounded
// length. An alert of a tenant begins with its origin, is in one line, and has no links.
func (a Alert) cleaned() Alert {
	made := func(s string) string { return s }
	if a.Tenant != "" {
		made = func(s string) string { return strings.ReplaceAll(oneLine(s), "://", "[:]//") }
		origin := "tenant " + a.Tenant
		a.Text = "written by " + origin + ": " + made(a.Text)
		a.Details = append([]Detail{{"origin", origin + ", policy " + a.Policy}}, a.Details...)
		a.Title = "[" + origin + "] " + a.Title
	}
	a.Title, a.Text = clip(oneLine(a.Title), maxTitle), clip(printable(a.Text), maxText)
	details := make([]Detail, 0, min(len(a.Details), maxDetails))
	for _, d := range a.Details[:min(len(a.Details), maxDetails)] {
		details = append(details, Detail{clip(oneLine(d.Name), maxDetail), clip(oneLine(made(d.Value)), maxDetail)})
	}
	a.Details = details
	return a
}

func clip(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return ares.Truncate(s, most) + "…"
}

// oneLine replaces line breaks by spaces and removes what `printable` removes.
func oneLine(s string) string {
	return printable(strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) {
			return ' '
		}
		return r
	}, s))
}

// The function `printable` removes control characters except line breaks, and characters that change the direction or the
// order of the text around them.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || unicode.IsPrint(r) {
			return r
		}
		return -1
	}, strings.ToValidUTF8(s, ""))
}
