package forecast

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	ares "github.com/ares-scheduler/ares"
)

// Features describes what is known about a job before it runs.
type Features struct {
	Tenant  string
	User    string
	Name    string // without its numbers
	Image   string
	Command string // the command line without its numbers
	Model   string // of the GPUs, "" for any
	Milli   int    // thousandths of GPUs, over all members
	Limit   time.Duration
}

// FeaturesOf returns the features of a job.
func FeaturesOf(j *ares.Job) Features {
	return Features{
		Tenant: j.Tenant, User: j.Owner, Name: withoutNumbers(j.Name), Image: j.Image, Command: withoutNumbers(strings.Join(j.Argv(), " ")),
		Model: j.GPUModel, Milli: max(j.Members, 1) * (1000*j.GPUs + j.GPUMilli), Limit: j.MaxRuntime(),
	}
}

// withoutNumbers removes the numbers from a name. Numbers in a name usually distinguish repeated
// runs of one experiment, not different kinds of work. A word of eight or more hexadecimal digits
// counts as a number.
func withoutNumbers(name string) string {
	var out strings.Builder
	for len(name) > 0 {
		n := wordLength(name)
		if n == 0 {
			_, n = utf8.DecodeRuneInString(name)
			out.WriteString(name[:n])
		} else if !isHash(name[:n]) {
			writeWithoutNumbers(&out, name[:n])
		}
		name = name[n:]
	}
	return strings.Trim(out.String(), "-_.:/ ")
}

// wordLength returns the length of the letters and digits at the start of a
// name.
func wordLength(s string) int {
	n := 0
	for n < len(s) && (letter(s[n]) || digit(s[n])) {
		n++
	}
	return n
}

func isHash(word string) bool {
	digits := 0
	for i := range len(word) {
		if digit(word[i]) {
			digits++
		} else if c := word[i] | 0x20; c < 'a' || c > 'f' {
			return false
		}
	}
	return digits > 0 && len(word) >= 8
}

func writeWithoutNumbers(out *strings.Builder, word string) {
	for i := range len(word) {
		if !digit(word[i]) {
			out.WriteByte(word[i])
		}
	}
}

func digit(c byte) bool  { return '0' <= c && c <= '9' }
func letter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }

// A scope says which properties are the same for all jobs in a group.
type scope int

const (
	everybody scope = iota
	byTenant
	byUser
	byName
	byCommand // and image
	scopes    // number of scopes
)

// A level is one kind of group.
type level struct {
	scope scope
	// If the field `size` is true, the jobs in a group also request the same number and model of
	// GPUs.
	size bool
	// If the field `share` is true, runtimes are stored as fractions of the jobs' time limits.
	share bool
	// This function returns a description of the group's runs, for a text like "12 runs of …".
	words func(a *Features) string
}

// This array lists the kinds of groups, from narrow to wide.
var levels = [...]level{
	{scope: byCommand, size: true, words: func(a *Features) string { return describe(a) + " with this command on " + gpus(a) }},
	{scope: byName, size: true, words: func(a *Features) string { return describe(a) + " on " + gpus(a) }},
	{scope: byName, words: describe},
	{scope: byUser, share: true, words: func(a *Features) string { return a.User + "'s jobs, relative to their limits" }},
	{scope: byUser, size: true, words: func(a *Features) string { return a.User + "'s jobs on " + gpus(a) }},
	{scope: byUser, words: func(a *Features) string { return a.User + "'s jobs" }},
	{scope: byTenant, size: true, words: func(a *Features) string { return "tenant " + a.Tenant + "'s jobs on " + gpus(a) }},
	{scope: byTenant, words: func(a *Features) string { return "tenant " + a.Tenant + "'s jobs" }},
	{scope: everybody, share: true, words: func(*Features) string { return "all tenants' jobs, relative to their limits" }},
	{scope: everybody, size: true, words: func(a *Features) string { return "all tenants' jobs on " + gpus(a) }},
	{scope: everybody, words: func(*Features) string { return "all tenants' jobs" }},
}

// tenantLevel is an index in the array `levels`. A group of that level contains all runs of
// one tenant, and the factor that corrects the tenant's predictions.
const tenantLevel = 7

// ownLevels is the number of levels whose groups contain only runs of the same job. They are the narrowest.
const ownLevels = 3

// userLevel returns the level of the group that contains all runs of the job's submitter. If the user of the job
// is not known, the tenant is the submitter.
func userLevel(a *Features) int {
	if a.User == "" {
		return tenantLevel
	}
	return 5
}

// isOf reports whether the groups of the level contain only runs of the job's submitter.
func (l *level) isOf(a *Features) bool {
	return l.scope > byTenant || l.scope == byTenant && a.User == ""
}

func describe(a *Features) string {
	switch {
	case a.Name != "" && a.User != "":
		return a.User + "'s " + a.Name
	case a.Name != "":
		return a.Name
	case a.User != "":
		return a.User + "'s unnamed job"
	default:
		return "an unnamed job of tenant " + a.Tenant
	}
}

func gpus(a *Features) string {
	out := fmt.Sprintf("%g GPUs", float64(a.Milli)/1000)
	switch {
	case a.Milli == 0:
		return "no GPU"
	case a.Model != "":
		return fmt.Sprintf("%g×%s", float64(a.Milli)/1000, a.Model)
	case a.Milli == 1000:
		return "1 GPU"
	}
	return out
}

// The method `keys` returns the keys of the groups to which a job belongs. They are indexed by
// level. The key is 0 for a level at which the job has no group. Two groups have the same key
// with a probability of 2^-64, and would then share their runs.
func (a *Features) keys() (out [len(levels)]uint64) {
	var of [scopes]hasher
	of[everybody] = offset
	of[byTenant] = of[everybody].text(a.Tenant)
	of[byUser] = of[byTenant].text(a.User)
	of[byName] = of[byUser].text(a.Name)
	of[byCommand] = of[byName].text(a.Image).text(a.Command)
	for i := range levels {
		l := &levels[i]
		if !a.has(l.scope) || l.share && a.Limit <= 0 {
			continue
		}
		h := of[l.scope].byte(byte(i))
		if l.size {
			h = h.text(a.Model)
			for n := a.Milli; n > 0; n >>= 8 {
				h = h.byte(byte(n))
			}
		}
		out[i] = max(uint64(h), 1)
	}
	return out
}

// This method reports whether the job sets every property that the scope compares.
func (a *Features) has(s scope) bool {
	switch s {
	case byUser:
		return a.User != ""
	case byName:
		return a.Name != ""
	case byCommand:
		return a.Name != "" || a.Command != ""
	default:
		return true
	}
}

// A `hasher` computes an FNV-1a hash.
type hasher uint64

const offset hasher = 14695981039346656037

func (h hasher) byte(b byte) hasher { return (h ^ hasher(b)) * 1099511628211 }

func (h hasher) text(s string) hasher {
	for i := range len(s) {
		h = h.byte(s[i])
	}
	return h.byte(0xff) // not a byte of UTF-8: marks the end of the field
}
