package check_test

import (
	"strings"
	"testing"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/test/chaos/robustness/check"
	"github.com/ares-scheduler/ares/test/chaos/robustness/trace"
)

// onFirst tampers with the first seat in every recorded version of a job's
// first attempt.
func onFirst(id string, tamper func(h *ares.SeatStatus)) func(r *trace.Run) {
	return func(r *trace.Run) {
		for _, run := range runs(r, id) {
			tamper(&run.Attempts[0].Seats[0])
		}
	}
}

func TestNotOversold(t *testing.T) {
	t.Parallel()
	plant(t, []planted{
		{"a device given twice", check.NotOversold, "device n1-gpu0 of n1 has 2000 thousandths", onFirst("gang", func(h *ares.SeatStatus) {
			h.Shares[0].Device = "n1-gpu0"
		})},
		{"shares that are too much together", check.NotOversold, "device n1-gpu0 of n1 has 1001 thousandths", onFirst("gang", func(h *ares.SeatStatus) {
			h.Shares = append(h.Shares, ares.Share{Device: "n1-gpu0", Milli: 1})
		})},
		{"given away before it was free", check.NotOversold, "device n1-gpu0 of n1 has 2000", func(r *trace.Run) {
			runs(r, "plain")[3].Attempts[0].Seats[0].State = ares.SeatFinished
		}},
		{"a device that is not there", check.NotOversold, "which n1 does not have", onFirst("plain", func(h *ares.SeatStatus) {
			h.Shares[0].Device = "n2-gpu0"
		})},
		{"a node that is not there", check.NotOversold, "which is no node", onFirst("plain", func(h *ares.SeatStatus) { h.Node = "n9" })},
		{"less than nothing", check.NotOversold, "was given -1/1000", onFirst("plain", func(h *ares.SeatStatus) { h.Shares[0].Milli = -1 })},
		{"too many cores", check.NotOversold, "node n1 has 9 cores", onFirst("gang", func(h *ares.SeatStatus) { h.CPUs = 8 })},
		{"too much memory", check.NotOversold, "node n1 has 1001 MB", onFirst("gang", func(h *ares.SeatStatus) { h.Memory = 991 })},
		{"archived with a seat", check.NotOversold, "while it held seats", func(r *trace.Run) {
			runs(r, "plain")[3].Attempts[0].Seats[0].State = ares.SeatFinished
		}},
		{"half a gang", check.NotOversold, "has 1 members, but the job needs 2 to 2", func(r *trace.Run) {
			for _, run := range runs(r, "gang") {
				run.Attempts[0].Seats = run.Attempts[0].Seats[:1]
			}
		}},
		{"what the engine cannot read", check.NotOversold, "the engine's own laws", func(r *trace.Run) {
			again(r, ares.Event{Run: &ares.RunEvent{Job: "plain", Run: ares.Run{Phase: ares.Running, Attempts: []ares.Attempt{{Number: 1, Seats: []ares.SeatStatus{
				{Seat: ares.Seat{Node: "n1", Shares: []ares.Share{{Device: "n1-gpu0", Milli: 3000}}}},
			}}}}}})
		}},
	})
}

func TestWithinQuota(t *testing.T) {
	t.Parallel()
	plant(t, []planted{
		{"more than its limit", check.WithinQuota, "tenant t holds 3 GPUs", func(r *trace.Run) { r.Meta.Quotas["t"] = 2 }},
		{"a part too much", check.WithinQuota, "tenant t holds 3 GPUs and 1/1000", func(r *trace.Run) {
			r.Meta.Quotas["t"] = 3
			onFirst("plain", func(h *ares.SeatStatus) { h.Shares = append(h.Shares, ares.Share{Device: "n1-gpu1", Milli: 1}) })(r)
		}},
		{"less than nothing", check.WithinQuota, "-5/1000", onFirst("plain", func(h *ares.SeatStatus) { h.Shares[0].Milli = -5 })},
		{"a finished seat still counts", check.WithinQuota, "tenant t holds 4 GPUs", func(r *trace.Run) {
			r.Meta.Quotas["t"] = 3
			again(r, ares.Event{Run: &ares.RunEvent{Job: "gang", Run: *runs(r, "gang")[4]}}, ares.Event{Run: &ares.RunEvent{Job: "stopped", Run: *runs(r, "stopped")[3]}},
				ares.Event{Run: &ares.RunEvent{Job: "lost", Run: *runs(r, "lost")[5]}})
		}},
	})
	t.Run("a voided seat is its node's", func(t *testing.T) {
		t.Parallel()
		r := copied(t, good(t).finish())
		r.Meta.Quotas["t"] = 3 // enough for the plain job and the gang; the lost job's voided seat would exceed it
		run := *runs(r, "lost")[2]
		again(r, ares.Event{Run: &ares.RunEvent{Job: "gang", Run: *runs(r, "gang")[2]}}, ares.Event{Run: &ares.RunEvent{Job: "stopped", Run: *runs(r, "stopped")[1]}},
			ares.Event{Run: &ares.RunEvent{Job: "lost", Run: run}})
		for _, v := range check.Run(r).Violations {
			if v.Oracle == check.WithinQuota {
				t.Error(v)
			}
		}
	})
}

func TestRecord(t *testing.T) {
	t.Parallel()
	plant(t, []planted{
		{"a fault without a kind", check.CleanRecord, "has no kind", func(r *trace.Run) { r.Faults[0].Kind = "" }},
		{"an excuse of nobody", check.CleanRecord, "which is no node", func(r *trace.Run) { r.Faults[0].Excuses, r.Faults[0].Target = true, "s1" }},
		{"a fault taken back before", check.CleanRecord, "before it was made", func(r *trace.Run) { r.Faults[0].Until = 1 }},
		{"a call that ends before", check.CleanRecord, "ended before it began", func(r *trace.Run) { r.Calls[0].End = 1 }},
		{"a call of no kind", check.CleanRecord, "a call is", func(r *trace.Run) { r.Calls[0].Op = "" }},
		{"a call about nothing", check.CleanRecord, "names no job", func(r *trace.Run) { r.Calls[0].Job = "" }},
		{"a verb of no kind", check.CleanRecord, "which is no verb", func(r *trace.Run) { r.Witnesses["plain"][0].Verb = "sing" }},
		{"no store", check.CleanRecord, "nothing of the store", func(r *trace.Run) { r.Store = nil }},
		{"no beginning", check.CleanRecord, "without a snapshot", func(r *trace.Run) { r.Store = r.Store[1:] }},
		{"a revision again", check.CleanRecord, "was recorded after", func(r *trace.Run) { r.Store = append(r.Store, r.Store[len(r.Store)-1]) }},
		{"back without a restore", check.CleanRecord, "without a restore", func(r *trace.Run) {
			r.Store = append(r.Store, r.Store[0])
			r.Store[len(r.Store)-1].At = r.Meta.End
		}},
		{"a restore into the future", check.CleanRecord, "a backup is older", func(r *trace.Run) {
			r.Meta.Restores = []trace.Restore{{At: r.Meta.End + 1, Backup: 1e6, Highest: 1e5}}
		}},
	})
}

// TestStory checks that a printed story contains all events of a job. The
// events must be in order, with one line per event.
func TestStory(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	check.Story(good(t).finish(), "lost", &out)
	last := -1
	for _, words := range []string{
		"submit +0.020s unknown body x", "accepted at r", "scheduled | a1 f", "0@n3:placed,1", "a1 f", "pid 100: start", "FAULT node-kill n3",
		"pending | a1", "0@n3:voided,1=lost", "get", "pending a1", "scheduled | a1", "| a2 f", "pid 200: beat", "0@n2:finished,1=succeeded", "list",
	} {
		i := strings.Index(out.String()[last+1:], words)
		if i < 0 {
			t.Fatalf("%q is missing, or too early, in:\n%s", words, &out)
		}
		last += i
	}
	out.Reset()
	check.Story(good(t).finish(), "nobody", &out)
	if !strings.Contains(out.String(), "knows nothing") {
		t.Errorf("of nobody it says %s", &out)
	}
}
