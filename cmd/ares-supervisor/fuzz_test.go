//go:build linux

package main

import (
	"strings"
	"testing"
	"time"

	"github.com/ares-scheduler/ares/agent/run/seat"
)

// FuzzAnswer sends a supervisor two requests with some time in between. Even an invalid request must not allow the job to outlive its
// lease, and must not undo a decision to end the job. The agent must be able to parse every answer of the supervisor.
func FuzzAnswer(f *testing.F) {
	for _, s := range []string{
		"renewed 1000000000000", "renewed 1000000000001", "renewed -9223372036854775808", "renewed 9223372036854775807", "renewed x", "renewed",
		"stop -1 preempted", "stop 0", "stop 9223372036854775807 \x00\xff\n", "stop -9223372036854775808 x", "stop", "kill", "kill now", "status", "", " ", "STOP 1 x",
	} {
		f.Add(s, "renewed 1000000000002", int64(sec))
		f.Add("stop 5 first", s, int64(20*sec))
	}
	f.Fuzz(func(t *testing.T, first, second string, later int64) {
		s, now := fresh(), start
		for i, request := range []string{first, second} {
			if len(request) > maxRequest {
				return
			}
			if i == 1 {
				now = start.Add(max(0, min(seat.MaxDuration, time.Duration(later))))
			}
			was := struct {
				renewed, killAt seat.BootTime
				fenced          bool
				outcome         seat.Outcome
				reason          string
			}{s.renewed, s.killAt, s.fenced, s.outcome, s.reason}
			got := s.answer(strings.TrimSpace(request), now)
			verb, _, _ := strings.Cut(got, " ")
			if len(got) > 4<<10 || verb != "ok" && verb != "refused" && verb != "error" {
				t.Fatalf("%q is answered %q", request, got)
			}
			if verb != "ok" && (s.renewed != was.renewed || s.outcome == seat.Stopped && was.outcome != seat.Stopped) {
				t.Fatalf("%q is answered %q and obeyed", request, got)
			}
			if s.renewed > now || s.renewed < was.renewed {
				t.Fatalf("%q at %d: renewed at %d, before at %d", request, now, s.renewed, was.renewed)
			}
			if was.fenced && (!s.fenced || s.renewed != was.renewed) {
				t.Fatalf("%q undoes the fence", request)
			}
			if was.outcome != "" && (s.outcome != was.outcome || s.reason != was.reason) {
				t.Fatalf("%q changes %s %q into %s %q", request, was.outcome, was.reason, s.outcome, s.reason)
			}
			if was.killAt != 0 && (s.killAt == 0 || s.killAt > was.killAt) || s.outcome != "" && (s.killAt < 1 || s.killAt > now.Add(seat.MaxDuration)) {
				t.Fatalf("%q at %d: killed at %d, before at %d", request, now, s.killAt, was.killAt)
			}
			if s.next() == 0 && !s.fenced {
				t.Fatalf("%q leaves nothing planned", request)
			}
		}
	})
}
