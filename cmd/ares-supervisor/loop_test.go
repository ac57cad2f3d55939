//go:build linux

package main

import (
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/ares-scheduler/ares/agent/run/seat"
)

const (
	sec   = seat.BootTime(time.Second)
	start = 1000 * sec
)

// The function `fresh` returns a supervisor whose job started at the time of the last renewal. The value of lost_after
// is 20 s. Therefore the supervisor decides to end the job at +10 s, and sends SIGTERM at +12 s and SIGKILL at +14 s.
func fresh() *supervisor {
	return &supervisor{
		order: seat.Order{Spec: seat.Spec{
			LostAfter: 20 * time.Second, Grace: 5 * time.Second, MaxRuntime: time.Hour,
		}},
		renewed: start,
		start:   &birth{pid: 1 << 30, at: start},
	}
}

func renewed(at seat.BootTime) string { return "renewed " + strconv.FormatInt(int64(at), 10) }

func TestDecisionIsFinal(t *testing.T) {
	s := fresh()
	if got := s.answer(renewed(start+sec), start+10*sec-1); got != "ok" {
		t.Errorf("in time: %s", got)
	}
	// The last renewal was sent at +1 s. Only the time at which a renewal was sent matters, not the time at which its
	// answer arrived.
	if s.next() != start+11*sec {
		t.Errorf("next at %v", s.next().Sub(start))
	}
	if got := s.answer(renewed(start+11*sec), start+11*sec); got != "refused fenced" {
		t.Errorf("at half of lost_after: %s", got)
	}
	if got := s.answer(renewed(start+12*sec), start+12*sec); got != "refused fenced" {
		t.Errorf("after it: %s", got)
	}
	if s.outcome != seat.Fenced || s.termAt != start+13*sec || s.killAt != start+15*sec {
		t.Errorf("%s, term %v, kill %v", s.outcome, s.termAt.Sub(start), s.killAt.Sub(start))
	}
}

func TestFirstCauseWins(t *testing.T) {
	s := fresh()
	s.answer("stop -1 preempted", start+8*sec)
	s.decide(start + 10*sec) // now it is fenced too, which may only make the end earlier
	s.answer("stop "+strconv.Itoa(int(time.Hour))+" later", start+10*sec)
	if s.outcome != seat.Stopped || s.reason != "preempted" || s.termAt != start+8*sec || s.killAt != start+13*sec {
		t.Errorf("%s %q, term %v, kill %v", s.outcome, s.reason, s.termAt.Sub(start), s.killAt.Sub(start))
	}
	s.answer("kill", start+11*sec)
	if s.killAt != start+11*sec {
		t.Errorf("kill %v", s.killAt.Sub(start))
	}
}

func TestGraceDoesNotOutliveTheLease(t *testing.T) {
	s := fresh()
	s.answer("stop "+strconv.Itoa(int(time.Hour))+" slow", start+sec)
	s.decide(start + 10*sec)
	if s.killAt != start+14*sec {
		t.Errorf("kill %v", s.killAt.Sub(start))
	}
}

func TestMaxRuntimeCountsFromStart(t *testing.T) {
	s := fresh()
	end := start + 3600*sec
	s.renewed = end - sec
	if s.decide(end - 1); s.outcome != "" {
		t.Errorf("%s too soon", s.outcome)
	}
	if s.decide(end); s.outcome != seat.MaxRuntime || s.termAt != end || s.killAt != end+5*sec {
		t.Errorf("%s, term %v, kill %v", s.outcome, s.termAt.Sub(start), s.killAt.Sub(start))
	}
}

func TestEndedJobKeepsItsOutcome(t *testing.T) {
	s := fresh()
	s.ended = true // the main process has ended, and its orphans are dying
	s.answer("stop -1 late", start+sec)
	s.decide(start + 3600*sec)
	if s.outcome != "" {
		t.Errorf("outcome %s", s.outcome)
	}
}

func TestBadRequests(t *testing.T) {
	s := fresh()
	for _, request := range []string{"", "x", "renewed", "renewed x", "stop", "stop x", renewed(start + 2*sec)} {
		if got := s.answer(request, start+sec); got == "ok" {
			t.Errorf("%q: %s", request, got)
		}
	}
	if s.outcome != "" || s.renewed != start {
		t.Errorf("changed: %s %v", s.outcome, s.renewed)
	}
}

// TestLaws sends requests in random order. TestLaws checks two rules. The time from the last accepted renewal to
// SIGKILL is at most 0.7 × lost_after. A planned kill is never postponed. The timer must never fire for an action that
// is impossible now, because it would then fire endlessly.
func TestLaws(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 0))
	for range 2000 {
		s := fresh()
		if rng.IntN(4) == 0 {
			s.start = nil // still starting
		}
		now := start
		for range 30 {
			now += seat.BootTime(rng.Int64N(int64(4 * sec)))
			kill := s.killAt
			switch rng.IntN(6) {
			case 0, 1:
				s.answer(renewed(now-seat.BootTime(rng.Int64N(int64(sec)))), now)
			case 2:
				s.answer("stop "+strconv.FormatInt(rng.Int64N(int64(30*sec)), 10)+" x", now)
			case 3:
				s.ended = s.start != nil && rng.IntN(5) == 0 || s.ended
			}
			s.decide(now)
			if kill != 0 && (s.killAt == 0 || s.killAt > kill) {
				t.Fatalf("seed %d: the kill moved from %v to %v", seed, kill, s.killAt)
			}
			if now >= s.order.DecideAt(s.renewed) && (s.killAt == 0 || s.killAt > s.order.KillAt(s.renewed)) {
				t.Fatalf("seed %d: fenced, and killed only at %v", seed, s.killAt)
			}
			if s.running() && s.termAt != 0 && now >= s.termAt {
				s.termSent = true // as act would do
			}
			if s.killAt != 0 && now >= s.killAt || s.ended {
				s.patience = time.Millisecond // as act would do
			}
			if next := s.next(); next != 0 && next <= now {
				t.Fatalf("seed %d: the timer would spin: %+v at %v", seed, s, now)
			}
		}
	}
}
