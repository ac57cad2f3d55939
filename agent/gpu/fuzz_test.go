package gpu

import (
	"fmt"
	"strings"
	"testing"

	"github.com/ares-scheduler/ares"
)

// FuzzHost parses memory sizes, simulated faults, names of profiles to simulate, and PCI addresses.
func FuzzHost(f *testing.F) {
	for _, s := range []string{
		"MemTotal:       65773252 kB\nMemFree: 1 kB\n", "MemTotal: -1 kB\n", "MemTotal:kB", "MemTotal: 99999999999999999999 kB\n", "2=ecc, 3=hot", "2=", "-1=x", "=", "0=a,0=b", "dgx-h100", "true", "off", "0",
		"00000000:1B:00.0", "ffff:ff:1f.7", "../../etc", ":", strings.Repeat("M", 70_000),
	} {
		f.Add(s, s)
	}
	f.Fuzz(func(t *testing.T, s, other string) {
		if mb, ok := parseMeminfo(strings.NewReader(s)); ok && mb < 0 {
			t.Fatalf("%d MiB of memory", mb)
		}
		faults, err := parseFaults(s)
		if err != nil && (ares.CodeOf(err) != ares.Invalid || !strings.Contains(err.Error(), FaultsEnv) || faults != nil) {
			t.Fatalf("%v, %v", faults, err)
		}
		var words []string
		for i, fault := range faults {
			if i < 0 || fault == "" || strings.Contains(fault, ",") {
				t.Fatalf("device %d has fault %q", i, fault)
			}
			words = append(words, fmt.Sprintf("%d=%s", i, fault))
		}
		if again, bad := parseFaults(strings.Join(words, ",")); bad != nil || len(again) != len(faults) {
			t.Fatalf("%v is read again as %v, %v", faults, again, bad)
		}
		profile, allowed, err := wanted(s, other)
		if err != nil && (ares.CodeOf(err) != ares.Invalid || !strings.Contains(err.Error(), DefaultProfile)) {
			t.Fatal(err)
		}
		if profile != "" {
			if _, unknown := profileNamed(profile); unknown != nil || !allowed || err != nil {
				t.Fatalf("%q and %q ask for %q, %v", s, other, profile, err)
			}
		}
		if n := sysfsNUMA(s); n < -1 {
			t.Fatalf("%q is on NUMA node %d", s, n)
		}
		if len(busKey(s)) > len(s) {
			t.Fatalf("%q has %d parts", s, len(busKey(s)))
		}
	})
}
