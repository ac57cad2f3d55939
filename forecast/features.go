package forecast

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	ares "github.com/ares-scheduler/ares"
)

// Features is what is known of a job before it runs.
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

// withoutNumbers removes the numbers from a name. Numbers distinguish the tries
// of one experiment, not what it does. A word of eight or more hexadecimal
// digits counts as a number.
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

// scope is what the members of a group have in common.
type scope int

const (
	everybody scope = iota
	byTenant
	byUser
	byName
	byCommand // and image
	scopes    // their number
)

// level is one kind of group.
type level struct {
	scope scope
	// size says that the requested GPUs and their model are in common too.
	size bool
	// share says that runtimes are kept as fractions of the time limits.
	share bool
	// words describes its runs, to follow their number in a text.
	words func(a *Features) string
}

// levels are the kinds of groups, from narrow to wide.
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

// tenantLevel is the level of all runs of a tenant. It also keeps the tenant's
// correction.
const tenantLevel = 7

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

// keys returns the keys of the groups of a job, by level, 0 for a level that it
// does not have. Two groups collide about once in 2^64 pairs; they would share
// their runs.
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

// has says whether the job has what the members of a scope have in common.
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

// hasher is the FNV-1a hash.
type hasher uint64

const offset hasher = 14695981039346656037

func (h hasher) byte(b byte) hasher { return (h ^ hasher(b)) * 1099511628211 }

func (h hasher) text(s string) hasher {
	for i := range len(s) {
		h = h.byte(s[i])
	}
	return h.byte(0xff) // not a byte of UTF-8: marks the end of the field
}
