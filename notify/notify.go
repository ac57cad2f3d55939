package notify

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"

	ares "github.com/ares-scheduler/ares"
)

// Alert is something people should know.
type Alert struct {
	// Key names what it is about: another of the same key within the window is
	// counted and not sent.
	Key   string
	Title string // one line
	Text  string
	At    time.Time
	// Details are names with their values, in the order they are shown.
	Details []Detail
	// Repeats is how many of the same key were not sent since the last one.
	Repeats int
}

// Detail is one thing to know of an alert.
type Detail struct{ Name, Value string }

// Sender delivers an alert. An error it returns says nothing secret.
type Sender interface {
	Send(ctx context.Context, a Alert) error
}

// Channel is a way to tell people.
type Channel struct {
	Name   string
	Kind   string
	Sender Sender
}

// Options bound what is sent.
type Options struct {
	PerMinute int           // alerts a channel sends in a minute at most
	Window    time.Duration // in which the same alert is told once
	Queue     int           // alerts that wait for a channel at most
	Tries     int           // of one alert
	Backoff   time.Duration // after the first failed try; it doubles up to MaxWait
	MaxWait   time.Duration
	Timeout   time.Duration // of one try
	Now       func() time.Time
	Log       *slog.Logger
	// Observe is told what became of an alert: sent, failed, repeated, dropped or
	// unknown.
	// May be nil.
	Observe func(channel, outcome string)
}

// DefaultOptions are those of a server that says nothing else.
func DefaultOptions() Options {
	return Options{
		PerMinute: 20, Window: 10 * time.Minute, Queue: 256, Tries: 6, Backoff: time.Second, MaxWait: time.Minute, Timeout: 10 * time.Second,
		Now: time.Now, Log: slog.New(slog.DiscardHandler),
	}
}

// maxKeys bounds the alerts a channel remembers.
const maxKeys = 10_000

// What becomes of an alert.
const (
	Sent     = "sent"
	Failed   = "failed"   // every try failed
	Repeated = "repeated" // the same was told within the window
	Dropped  = "dropped"  // too many wait, or the server stopped
	Unknown  = "unknown"  // there is no such channel here
)

// Notifier sends alerts. It is safe for concurrent use.
type Notifier struct {
	opts     Options
	channels map[string]*channel
	names    []string

	mu      sync.Mutex
	strange map[string]bool // names of channels that there are not
}

// channel is one channel with what waits for it.
type channel struct {
	Channel
	queue chan Alert
	pace  *rate.Limiter

	mu        sync.Mutex
	told      map[string]telling
	count     map[string]int64
	lastError string
}

// telling is when an alert of a key was last taken, and how many were not since.
type telling struct {
	at      time.Time
	repeats int
}

// New makes a notifier. Nothing is sent before Run.
func New(channels []Channel, opts Options) *Notifier {
	n := &Notifier{opts: opts, channels: map[string]*channel{}, strange: map[string]bool{}}
	for _, c := range channels {
		n.channels[c.Name] = &channel{
			Channel: c, queue: make(chan Alert, opts.Queue),
			pace: rate.NewLimiter(rate.Every(time.Minute/time.Duration(opts.PerMinute)), max(1, opts.PerMinute/4)),
			told: map[string]telling{}, count: map[string]int64{},
		}
		n.names = append(n.names, c.Name)
	}
	slices.Sort(n.names)
	return n
}

// Has says whether there is a channel of this name.
func (n *Notifier) Has(name string) bool { return n.channels[name] != nil }

// Names lists the channels.
func (n *Notifier) Names() []string { return n.names }

// Tell has an alert sent through a channel, soon. It never waits.
func (n *Notifier) Tell(name string, a Alert) {
	c := n.channels[name]
	if c == nil {
		n.unknown(name)
		return
	}
	repeats, again := c.again(a.Key, n.opts.Now(), n.opts.Window)
	if again {
		n.became(c, Repeated, nil)
		return
	}
	a.Repeats = repeats
	select {
	case c.queue <- a:
	default:
		c.forget(a.Key)
		n.became(c, Dropped, nil)
	}
}

// unknown notes that an alert has no way to go, and says so once for each name.
func (n *Notifier) unknown(name string) {
	if n.opts.Observe != nil {
		n.opts.Observe(name, Unknown)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.strange[name] && len(n.strange) < maxKeys {
		n.strange[name] = true
		n.opts.Log.Warn("alerts have no way to go: this server has no such channel", "channel", name)
	}
}

// again says whether an alert of this key was told within the window; if not, how
// many were kept back since the last.
func (c *channel) again(key string, now time.Time, window time.Duration) (repeats int, again bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	was, known := c.told[key]
	if known && now.Sub(was.at) < window {
		was.repeats++
		c.told[key] = was
		return 0, true
	}
	if len(c.told) >= maxKeys {
		clear(c.told)
	}
	c.told[key] = telling{at: now}
	return was.repeats, false
}

// forget has the next alert of a key sent: this one was not.
func (c *channel) forget(key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.told, key)
}

func (n *Notifier) became(c *channel, outcome string, err error) {
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

// Run sends what is told until ctx ends.
func (n *Notifier) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	for _, name := range n.names {
		wg.Go(func() { n.serve(ctx, n.channels[name]) })
	}
	wg.Wait()
	return nil
}

func (n *Notifier) serve(ctx context.Context, c *channel) {
	for {
		select {
		case <-ctx.Done():
			for len(c.queue) > 0 {
				<-c.queue
				n.became(c, Dropped, nil)
			}
			return
		case a := <-c.queue:
			if c.pace.Wait(ctx) == nil {
				n.deliver(ctx, c, a)
			} else {
				n.became(c, Dropped, nil)
			}
		}
	}
}

// deliver tries until the alert is out, or the tries are used up.
func (n *Notifier) deliver(ctx context.Context, c *channel, a Alert) {
	wait := n.opts.Backoff
	for try := 1; ; try++ {
		err := n.try(ctx, c, a)
		if err == nil {
			n.became(c, Sent, nil)
			return
		}
		if try >= n.opts.Tries || ares.CodeOf(err) == ares.Invalid {
			c.forget(a.Key)
			n.became(c, Failed, err)
			n.opts.Log.Error("an alert could not be sent", "channel", c.Name, "alert", a.Key, "tries", try, "error", err)
			return
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			n.became(c, Dropped, nil)
			return
		case <-timer.C:
		}
		wait = min(2*wait, n.opts.MaxWait)
	}
}

func (n *Notifier) try(ctx context.Context, c *channel, a Alert) error {
	ctx, cancel := context.WithTimeout(ctx, n.opts.Timeout)
	defer cancel()
	return c.Sender.Send(ctx, a)
}

// Test sends an alert through a channel now, once, and says what came of it.
func (n *Notifier) Test(ctx context.Context, name, by string) error {
	c := n.channels[name]
	if c == nil {
		return ares.Errorf(ares.NotFound, "this server has no channel %q: see `ares alert list`, and alerts.channels in its configuration", name).At("name")
	}
	err := n.try(ctx, c, Alert{
		Key: "test", Title: "Ares: a test of channel " + name, Text: "If you read this, alerts arrive here.", At: n.opts.Now(),
		Details: []Detail{{"asked for by", by}},
	})
	if err != nil {
		n.became(c, Failed, err)
		return ares.Errorf(ares.Unavailable, "the alert was not delivered: %s", err)
	}
	n.became(c, Sent, nil)
	return nil
}

// Status is how a channel does.
type Status struct {
	Name, Kind                      string
	Sent, Failed, Repeated, Dropped int64
	Waiting                         int
	LastError                       string
}

// Status lists the channels with what became of their alerts.
func (n *Notifier) Status() []Status {
	out := make([]Status, 0, len(n.names))
	for _, name := range n.names {
		c := n.channels[name]
		c.mu.Lock()
		out = append(out, Status{
			Name: name, Kind: c.Kind, Sent: c.count[Sent], Failed: c.count[Failed], Repeated: c.count[Repeated], Dropped: c.count[Dropped],
			Waiting: len(c.queue), LastError: c.lastError,
		})
		c.mu.Unlock()
	}
	return out
}
