package notify

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/pause"
)

// Alert is a message for people.
type Alert struct {
	// ID identifies the event of a job that the alert is about; "" for other alerts. Repeated deliveries have the same ID.
	ID string
	// Key identifies the subject of the alert. If an alert with the same key was sent within the time window, the new
	// alert is only counted, not sent.
	Key   string
	Title string // one line
	Text  string
	At    time.Time
	// Details are name and value pairs, in the order in which they are shown.
	Details []Detail
	// Repeats is the number of suppressed alerts with the same key. It counts from the time when the last one was
	// sent.
	Repeats int
	// Tenant and Policy are the origin of the alert: the tenant whose policy made it, and the name of this policy. Tenant is
	// "" for an alert of the platform. The method Tell adds the origin to the text of a tenant's alert.
	Tenant, Policy string
	// Written means that Text contains what users wrote, such as names of jobs. The text of a tenant's policy always does,
	// and so may the details of every alert of a policy.
	Written bool

	lead string // says who wrote Text, and stands before it
}

// Detail is one detail of an alert.
type Detail struct{ Name, Value string }

// Sender delivers an alert. The errors of a Sender contain no secrets.
type Sender interface {
	Send(ctx context.Context, a Alert) error
}

// Channel is a destination of alerts.
type Channel struct {
	Name   string
	Kind   string
	Sender Sender
	// Tenants are the tenants whose policies may use the channel. AnyTenant stands for all tenants. By default, only
	// policies of the platform may use it.
	Tenants []string
}

// Options are the limits on sending.
type Options struct {
	PerMinute int           // alerts that a channel sends per minute
	PerTenant int           // alerts per minute that a channel accepts from the policies of one tenant
	Window    time.Duration // the same alert is sent only once within this time
	Queue     int           // maximum number of alerts that wait for a channel
	Tries     int           // tries for one alert
	Backoff   time.Duration // after the first failed try; it doubles up to MaxWait
	MaxWait   time.Duration
	Timeout   time.Duration // time limit of one try
	Now       func() time.Time
	Log       *slog.Logger
	// Observe is called with the outcome of each alert: sent, failed, repeated, dropped, limited, forbidden or unknown.
	// Observe may be nil.
	Observe func(channel, outcome string)
}

// DefaultOptions returns the options that apply without a configuration.
func DefaultOptions() Options {
	return Options{
		PerMinute: 20, PerTenant: 4, Window: 10 * time.Minute, Queue: 256, Tries: 6, Backoff: time.Second, MaxWait: time.Minute, Timeout: 10 * time.Second,
		Now: time.Now, Log: slog.New(slog.DiscardHandler),
	}
}

// maxKeys is the maximum number of keys that a channel remembers.
const maxKeys = 10_000

// These are the possible outcomes of an alert.
const (
	Sent      = "sent"
	Failed    = "failed"    // every try failed
	Repeated  = "repeated"  // the same alert was sent within the window
	Dropped   = "dropped"   // the queue is full, or the server stopped
	Limited   = "limited"   // the tenant has used up its alerts per minute
	Forbidden = "forbidden" // the tenant may not use the channel
	Unknown   = "unknown"   // this server has no such channel
)

// Notifier sends alerts. It is safe for concurrent use.
type Notifier struct {
	opts     Options
	channels map[string]*channel
	names    []string

	mu      sync.Mutex
	strange map[string]bool // names of missing channels that were logged
}

// The type `channel` is a Channel together with its queue.
type channel struct {
	Channel
	queue   chan Alert // of the platform
	tenants chan Alert // of tenants
	pace    *rate.Limiter

	mu        sync.Mutex
	paces     map[string]*rate.Limiter // by tenant
	told      map[string]sentAlert     // of the platform, by key
	toldOf    map[string]sentAlert     // of tenants, by tenant and key; tenants choose how many they make
	count     map[string]int64
	lastError string
}

// sentAlert records when an alert with a certain key was last sent. It also counts the alerts with that key that were
// suppressed since then.
type sentAlert struct {
	at      time.Time
	repeats int
}

// New returns a notifier. The notifier sends nothing before Run is called.
func New(channels []Channel, opts Options) *Notifier {
	n := &Notifier{opts: opts, channels: map[string]*channel{}, strange: map[string]bool{}}
	for _, c := range channels {
		n.channels[c.Name] = &channel{
			Channel: c, queue: make(chan Alert, opts.Queue), tenants: make(chan Alert, opts.Queue), paces: map[string]*rate.Limiter{},
			pace: rate.NewLimiter(rate.Every(time.Minute/time.Duration(opts.PerMinute)), max(1, opts.PerMinute/4)),
			told: map[string]sentAlert{}, toldOf: map[string]sentAlert{}, count: map[string]int64{},
		}
		n.names = append(n.names, c.Name)
	}
	slices.Sort(n.names)
	return n
}

// Has reports whether a channel with this name exists.
func (n *Notifier) Has(name string) bool { return n.channels[name] != nil }

// Names returns the names of all channels.
func (n *Notifier) Names() []string { return n.names }

// Tell adds an alert to a channel's queue. It never waits.
func (n *Notifier) Tell(name string, a Alert) {
	c := n.channels[name]
	if c == nil {
		n.unknown(name, a.Tenant)
		return
	}
	if !c.allows(a.Tenant) {
		n.setStatus(c, Forbidden, nil)
		return
	}
	repeats, again := c.isRepeat(&a, n.opts.Now(), n.opts.Window)
	if again {
		n.setStatus(c, Repeated, nil)
		return
	}
	if !c.hasTurn(a.Tenant, n.opts.Now(), n.opts.PerTenant) {
		c.forget(&a)
		n.setStatus(c, Limited, nil)
		return
	}
	a.Repeats = repeats
	queue := c.queue
	if a.Tenant != "" {
		queue = c.tenants
	}
	select {
	case queue <- a.cleaned():
	default:
		c.forget(&a)
		n.setStatus(c, Dropped, nil)
	}
}

// noChannel stands for a channel of a tenant's policy that does not exist. Tenants choose the channels of their policies, and each name would
// otherwise become a metric that is never removed.
const noChannel = "(unknown)"

// This method counts an alert for a channel that does not exist. It logs each channel name of the platform's policies once.
func (n *Notifier) unknown(name, tenant string) {
	shown := name
	if tenant != "" {
		shown = noChannel
	}
	if n.opts.Observe != nil {
		n.opts.Observe(shown, Unknown)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if tenant == "" && !n.strange[name] && len(n.strange) < maxKeys {
		n.strange[name] = true
		n.opts.Log.Warn("alerts cannot be sent: this server has no such channel", "channel", name)
	}
}

// The method `keys` returns the keys that an alert is compared with, and its own key among them. Keys of different tenants
// never clash.
func (c *channel) keys(a *Alert) (map[string]sentAlert, string) {
	if a.Tenant == "" {
		return c.told, a.Key
	}
	return c.toldOf, a.Tenant + "\x00" + a.Key
}

// isRepeat reports whether an alert with this key was sent within the window. If no such alert was sent, the result
// "repeats" is the number of alerts that were suppressed since the last one was sent.
func (c *channel) isRepeat(a *Alert, now time.Time, window time.Duration) (repeats int, again bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	told, key := c.keys(a)
	was, known := told[key]
	if known && now.Sub(was.at) < window {
		was.repeats++
		told[key] = was
		return 0, true
	}
	if len(told) >= maxKeys {
		maps.DeleteFunc(told, func(_ string, s sentAlert) bool { return now.Sub(s.at) >= window })
	}
	if len(told) >= maxKeys {
		clear(told)
	}
	told[key] = sentAlert{at: now}
	return was.repeats, false
}

// If an alert could not be sent, the method `forget` removes its key. The next alert with that key is then sent.
func (c *channel) forget(a *Alert) {
	c.mu.Lock()
	defer c.mu.Unlock()
	told, key := c.keys(a)
	delete(told, key)
}

func (n *Notifier) setStatus(c *channel, outcome string, err error) {
	c.mu.Lock()
	c.count[outcome]++
	switch {
	case err != nil:
		c.lastError = err.Error()
	case outcome == Sent:
		c.lastError = ""
	}
	c.mu.Unlock()
	if n.opts.Observe != nil {
		n.opts.Observe(c.Name, outcome)
	}
}

// Run sends the queued alerts until ctx ends. The alerts of tenants are sent apart from those of the platform: a tenant's text
// that a service does not accept is retried for minutes, and no other alert waits for it.
func (n *Notifier) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	for _, name := range n.names {
		c := n.channels[name]
		wg.Go(func() { n.serve(ctx, c, c.queue) })
		wg.Go(func() { n.serve(ctx, c, c.tenants) })
	}
	wg.Wait()
	return nil
}

func (n *Notifier) serve(ctx context.Context, c *channel, queue <-chan Alert) {
	for {
		select {
		case <-ctx.Done():
			for len(queue) > 0 {
				<-queue
				n.setStatus(c, Dropped, nil)
			}
			return
		case a := <-queue:
			n.sendPaced(ctx, c, a)
		}
	}
}

// sendPaced sends an alert as soon as the channel's rate allows it.
func (n *Notifier) sendPaced(ctx context.Context, c *channel, a Alert) {
	if c.pace.Wait(ctx) == nil {
		n.deliver(ctx, c, a)
	} else {
		n.setStatus(c, Dropped, nil)
	}
}

// The method `deliver` tries to send an alert until it succeeds or no attempts are left.
func (n *Notifier) deliver(ctx context.Context, c *channel, a Alert) {
	wait := n.opts.Backoff
	for try := 1; ; try++ {
		err := n.sendOnce(ctx, c, a)
		if err == nil {
			n.setStatus(c, Sent, nil)
			return
		}
		if try >= n.opts.Tries || ares.CodeOf(err) == ares.Invalid {
			c.forget(&a)
			n.setStatus(c, Failed, err)
			n.opts.Log.Error("an alert could not be sent", "channel", c.Name, "alert", a.Key, "tries", try, "error", err)
			return
		}
		if !pause.For(ctx, wait) {
			n.setStatus(c, Dropped, nil)
			return
		}
		wait = min(2*wait, n.opts.MaxWait)
	}
}

func (n *Notifier) sendOnce(ctx context.Context, c *channel, a Alert) error {
	ctx, cancel := context.WithTimeout(ctx, n.opts.Timeout)
	defer cancel()
	return c.Sender.Send(ctx, a)
}

// Test sends an alert through a channel immediately, without retries, and returns the error if that fails.
func (n *Notifier) Test(ctx context.Context, name, by string) error {
	c := n.channels[name]
	if c == nil {
		return ares.Errorf(ares.NotFound, "this server has no alert channel %q: run `ares alert list` to see the channels, or add one to alerts.channels in the configuration", name).At("name")
	}
	err := n.sendOnce(ctx, c, Alert{
		Key: "test", Title: "Ares: a test of channel " + name, Text: "If you read this, alerts arrive here.", At: n.opts.Now(),
		Details: []Detail{{"requested by", by}},
	})
	if err != nil {
		n.setStatus(c, Failed, err)
		return ares.Errorf(ares.Unavailable, "the alert was not delivered: %s", err)
	}
	n.setStatus(c, Sent, nil)
	return nil
}

// Status describes the state of a channel.
type Status struct {
	Name, Kind             string
	Sent, Failed, Repeated int64
	Dropped                int64 // with those that are limited or forbidden
	Waiting                int
	LastError              string
}

// Status returns the state of each channel and the outcomes of its alerts.
func (n *Notifier) Status() []Status {
	out := make([]Status, 0, len(n.names))
	for _, name := range n.names {
		c := n.channels[name]
		c.mu.Lock()
		out = append(out, Status{
			Name: name, Kind: c.Kind, Sent: c.count[Sent], Failed: c.count[Failed], Repeated: c.count[Repeated],
			Dropped: c.count[Dropped] + c.count[Limited] + c.count[Forbidden],
			Waiting: len(c.queue) + len(c.tenants), LastError: c.lastError,
		})
		c.mu.Unlock()
	}
	return out
}
