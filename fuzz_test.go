package ares_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	ares "github.com/ares-scheduler/ares"
)

// FuzzWords parses single words that become quantities, filters, keys or paths. Each value must have exactly one accepted spelling. The
// error for a rejected word must be a complete sentence.
func FuzzWords(f *testing.F) {
	for _, s := range []string{
		"100Gb", "100Gbps", "1Gb", "0Gb", "-1Gb", "+1Gb", "0x10Gb", "100001Gb", "1Gb ", "1psGb", "Gb1", "1e3Gb",
		"pending", "completed", "Running", "job-aaaaaaaaaaaaaaaaaaaaaaaa", "job-AAAAAAAAAAAAAAAAAAAAAAAA", "job-../../../../etc/passwd..",
		"team-a", "a.b_c-9", ".hidden", "a/b", "", "\xff", "é",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if n, err := ares.ParseBandwidth(s); err == nil {
			short, long := fmt.Sprintf("%dGb", n), fmt.Sprintf("%dGbps", n)
			if n < 1 || n > 100_000 || s != short && s != long {
				t.Fatalf("%q is read as %d Gb/s", s, n)
			}
		} else if !strings.Contains(err.Error(), "100Gb") {
			t.Fatalf("%q is refused without a remedy: %v", s, err)
		}
		if p, err := ares.ParsePhase(s); err == nil {
			if !slices.Contains(ares.Phases(), p) || s != string(p) && s != "completed" {
				t.Fatalf("%q is read as phase %q", s, p)
			}
		} else if ares.CodeOf(err) != ares.Invalid || !strings.Contains(err.Error(), string(ares.Pending)) {
			t.Fatalf("%q is refused without a remedy: %v", s, err)
		}
		if (ares.ValidJobID(s) || ares.ValidName(s)) && (len(s) > 63 || s[0] == '.' || strings.ContainsAny(s, "/\\ \x00\n=")) {
			t.Fatalf("%q must not become part of a key or a path", s)
		}
		spec := ares.Spec{Name: s, Command: []string{s}, Tenant: s, Labels: map[string]string{s: s}, PriorityClass: ares.Class(s)}
		if err := spec.Check(); err != nil && ares.CodeOf(err) != ares.Invalid {
			t.Fatalf("a job named %q is refused with %v", s, err)
		}
		if a, b := ares.NewJobID(s, "x"), ares.NewJobID("x", s); s != "x" && a == b || !ares.ValidJobID(string(a)) {
			t.Fatalf("%q makes the IDs %s and %s", s, a, b)
		}
	})
}

// FuzzNodeRequirements parses the argument of --constraint. The printed form of an accepted text must parse to the same value. The error
// for a rejected text must be a complete sentence.
func FuzzNodeRequirements(f *testing.F) {
	for _, s := range []string{
		"gpu.memory>=80G,!spot", "zone in (a, b)", "zone notin(a)", "a=b c", `"a b"="c,d"`, "a==b", "a>b", "a in (", `"\x00"`, `a="\xff"`, "gpu.count in (1,08)", "!a!", "in in (in)", ",",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		rs, err := ares.ParseNodeRequirements(s)
		if err != nil {
			if ares.CodeOf(err) != ares.Invalid || len(err.Error()) > 1000 {
				t.Fatalf("%q is refused with %v", s, err)
			}
			return
		}
		if again, err := ares.ParseNodeRequirements(rs.String()); err != nil || again.String() != rs.String() || len(again) != len(rs) {
			t.Fatalf("%q is written as %s, which is read as %s, %v", s, rs, again, err)
		}
		spec := ares.Spec{Command: []string{"x"}, Constraints: &ares.Placement{NodeRequirements: rs}}
		if err := spec.Check(); err != nil && len(rs) <= ares.MaxNodeRequirements {
			t.Fatalf("%q is accepted, but not in a job: %v", s, err)
		}
	})
}
