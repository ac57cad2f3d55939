package sim

import (
	"fmt"
	"strings"
	"time"

	"github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/cli/admin"
	"github.com/ares-scheduler/ares/cli/exit"
)

// supposedWindows parses the reservations that a what-if simulation adds. Relative times in these
// reservations count from the time at which the state was recorded.
func supposedWindows(list []string, now time.Time) ([]*ares.Reservation, error) {
	var out []*ares.Reservation
	for i, text := range list {
		r, err := supposedWindow(text, fmt.Sprintf("what-if-%d", i+1), now)
		if err != nil {
			return nil, err
		}
		out = append(out, r)
	}
	return out, nil
}

func supposedWindow(text, name string, now time.Time) (*ares.Reservation, error) {
	var f admin.ReservationFlags
	r := &ares.Reservation{Name: name, By: "what if", CreatedAt: now}
	for part := range strings.SplitSeq(text, ";") {
		key, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		switch key {
		case "name":
			r.Name = value
		case "nodes":
			r.Nodes = strings.Split(value, ",")
		case "selector":
			label, wanted, ok := strings.Cut(value, "=")
			if !ok {
				return nil, exit.Usagef("--reserve %q: use selector=KEY=VALUE", text)
			}
			if r.Selector == nil {
				r.Selector = map[string]string{}
			}
			r.Selector[label] = wanted
		case "domain":
			r.Domain = value
		case "tenant":
			r.Tenant = value
		case "queue":
			r.Queue = value
		case "from":
			f.From = value
		case "until":
			f.Until = value
		case "for":
			f.Lasts = value
		case "drain":
			r.Drain = true
		case "":
		default:
			return nil, exit.Usagef("--reserve %q: %q is unknown; use 'nodes=a,b; from=+2h; for=4h; drain'", text, key)
		}
	}
	var times apipb.Reservation
	if err := f.Times(&times, now); err != nil {
		return nil, fmt.Errorf("--reserve %q: %w", text, err)
	}
	r.From, r.Until = now, times.GetUntil().AsTime()
	if times.GetFrom() != nil {
		r.From = times.GetFrom().AsTime()
	}
	if err := r.Check(now); err != nil {
		return nil, exit.Usagef("--reserve %q: %s", text, err)
	}
	return r, nil
}
