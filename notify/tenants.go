package notify

import (
	"regexp"
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
// length. An alert of a tenant begins with its origin. What users wrote is in one line, and has no links and no mentions.
func (a Alert) cleaned() Alert {
	if a.Tenant != "" {
		origin := "tenant " + a.Tenant
		a.Details = append([]Detail{{"origin", origin + ", policy " + a.Policy}}, a.Details...)
		a.Title = "[" + origin + "] " + a.Title
		a.lead, a.Written = "written by "+origin+": ", true
	}
	a.Title, a.Text = clip(oneLine(a.Title), maxTitle), clip(printable(a.Text), maxText)
	if a.Written {
		a.Text = harmless(a.Text)
	}
	details := make([]Detail, 0, min(len(a.Details), maxDetails))
	for _, d := range a.Details[:min(len(a.Details), maxDetails)] {
		details = append(details, Detail{clip(oneLine(d.Name), maxDetail), harmless(clip(d.Value, maxDetail))})
	}
	a.Details = details
	return a
}

// The method `text` returns the text of an alert with its origin.
func (a *Alert) text() string { return a.lead + a.Text }

// These patterns match what chat services and mail programs turn into a link or a mention. Some services search for the names
// of groups anywhere in a word.
var (
	links    = regexp.MustCompile(`(?i)\b(www|mailto|tel)([.:])`)
	mentions = regexp.MustCompile(`(?i)(^|[^0-9a-z])@|@(everyone|here|channel|all)`)
)

// The function `harmless` returns a text of users in one line and without links and mentions.
func harmless(s string) string {
	s = strings.NewReplacer("://", "[:]//", "](", "] (").Replace(oneLine(s))
	return mentions.ReplaceAllString(links.ReplaceAllString(s, "$1[$2]"), "$1(at)$2")
}

// The function `code` shows a text in Slack and compatible services as it is: they search it neither for mentions and links nor
// for markup.
func code(s string) string {
	if s == "" {
		return ""
	}
	return "`" + strings.ReplaceAll(s, "`", "'") + "`"
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
