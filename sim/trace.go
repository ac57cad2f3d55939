package sim

import (
	"cmp"
	"crypto/sha256"
	"encoding/csv"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	ares "github.com/ares-scheduler/ares"
)

// Arrival is one job of a trace.
type Arrival struct {
	At   time.Duration // since the trace began
	Runs time.Duration // how long it runs once it is placed; 0 means to the end
	Spec ares.Spec
	Line int
	ID   string // the trace's own name for the job, "" for none
}

// Trace is the jobs of a trace in the order of their arrival, and what could
// not be read.
type Trace struct {
	Format   string
	Digest   string // of the file it was read from, "" for none
	Arrivals []Arrival
	Bad      int       // rows that were left out
	Problems []Problem // the first of them
	Ignored  []string  // columns that mean nothing here
	Unended  int       // jobs whose end was not seen: how long they run is an estimate
	Censored int       // such jobs of which nothing is known; left out
	Fleet    *Fleet    // that the jobs ran on, where the trace says so; else nil
}

// Problem is a row that could not be read.
type Problem struct {
	Line int
	Why  string
}

func (p Problem) String() string { return fmt.Sprintf("line %d: %s", p.Line, p.Why) }

// maxProblems is how many bad rows are told; all are counted.
const maxProblems = 20

// Formats are the kinds of traces that can be read.
func Formats() []string { return []string{"openb", "philly", "deadlines", "slurm", "ares"} }

// format says how to read the rows of one kind of trace.
type format struct {
	comma    rune
	required []string
	ignored  []string // known, and of no use
	optional []string
	arrival  func(r *row) (Arrival, bool) // false: nothing for the fleet to do
}

var formats = map[string]format{
	"openb": {
		required: []string{"name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli"},
		optional: []string{"gpu_spec", "creation_time", "deletion_time"},
		ignored:  []string{"qos", "pod_phase", "scheduled_time"}, arrival: openb,
	},
	"philly": {
		required: []string{"timestamp", "duration", "num_gpus", "cluster"}, ignored: []string{"gpu_time"}, arrival: philly,
	},
	"deadlines": {
		required: []string{"job_id", "user", "num_gpu", "submit_time", "duration", "expect_time_list"},
		optional: []string{"best_effort", "model_name"},
		ignored:  []string{"iterations", "interval", "expect_value_list", "job_type"}, arrival: deadline,
	},
	"slurm": {
		comma: '|', required: []string{"JobID", "Submit", "ElapsedRaw", "AllocTRES"},
		optional: []string{"JobName", "User", "Account", "Partition", "Priority", "TimelimitRaw", "NNodes", "State"}, arrival: slurm,
	},
}

// Read reads a trace. A row that makes no sense is left out, counted and told
// with its line; it is never guessed at.
func Read(kind string, from io.Reader) (*Trace, error) {
	if kind == "ares" {
		return readPast(from)
	}
	f, ok := formats[kind]
	if !ok {
		return nil, ares.Errorf(ares.Invalid, "%q is no kind of trace: use one of %s", kind, strings.Join(Formats(), ", ")).At("format")
	}
	sum := sha256.New()
	in := csv.NewReader(io.TeeReader(from, sum))
	in.Comma = cmp.Or(f.comma, ',')
	in.ReuseRecord, in.FieldsPerRecord, in.LazyQuotes = true, -1, f.comma != 0
	head, err := in.Read()
	if err != nil {
		return nil, fmt.Errorf("read the header: %w", err)
	}
	t := &Trace{Format: kind}
	columns, err := t.columns(&f, kind, head)
	if err != nil {
		return nil, err
	}
	for {
		cells, err := in.Read()
		var parse *csv.ParseError
		switch {
		case errors.Is(err, io.EOF):
			t.Digest = hex.EncodeToString(sum.Sum(nil))
			slices.SortStableFunc(t.Arrivals, func(a, b Arrival) int { return cmp.Compare(a.At, b.At) })
			return t, nil
		case errors.As(err, &parse):
			t.bad(parse.Line, parse.Err.Error())
			continue
		case err != nil:
			return nil, fmt.Errorf("read the trace: %w", err)
		}
		line, _ := in.FieldPos(0)
		r := &row{columns: columns, cells: cells}
		a, useful := f.arrival(r)
		r.within(&a.Spec)
		if r.why != "" {
			t.bad(line, r.why)
		} else if useful {
			a.Line = line
			t.Arrivals = append(t.Arrivals, a)
		}
	}
}

// Guess finds the kind of a trace by its first line: the one whose columns are
// all there. "" when there is none, or more than one.
func Guess(head string) string {
	if strings.HasPrefix(head, string(gzipMagic)) || strings.HasPrefix(head, `{"job":`) {
		return "ares"
	}
	found := ""
	for _, kind := range Formats() {
		f, ok := formats[kind]
		if !ok {
			continue
		}
		names := strings.Split(strings.TrimSpace(strings.TrimPrefix(head, "\ufeff")), string(cmp.Or(f.comma, ',')))
		if slices.ContainsFunc(f.required, func(name string) bool { return !slices.Contains(names, name) }) {
			continue
		}
		if found != "" {
			return ""
		}
		found = kind
	}
	return found
}

// columns finds where each column is, and notes those nobody knows.
func (t *Trace) columns(f *format, kind string, head []string) (map[string]int, error) {
	columns := map[string]int{}
	for i, name := range head {
		name = strings.TrimSpace(strings.TrimPrefix(name, "\ufeff"))
		switch {
		case slices.Contains(f.required, name), slices.Contains(f.optional, name):
			columns[name] = i
		case name != "" && !slices.Contains(f.ignored, name):
			t.Ignored = append(t.Ignored, name)
		}
	}
	for _, name := range f.required {
		if _, ok := columns[name]; !ok {
			return nil, ares.Errorf(ares.Invalid, "a trace of kind %s has a column %s: the header is %q", kind, name, strings.Join(head, string(cmp.Or(f.comma, ','))))
		}
	}
	return columns, nil
}

func (t *Trace) bad(line int, why string) {
	t.Bad++
	if len(t.Problems) < maxProblems {
		t.Problems = append(t.Problems, Problem{line, why})
	}
}

// row is one row with its columns by name. The first thing wrong with it stays.
type row struct {
	columns map[string]int
	cells   []string
	why     string
}

func (r *row) text(name string) string {
	i, ok := r.columns[name]
	if !ok || i >= len(r.cells) {
		return ""
	}
	return strings.TrimSpace(r.cells[i])
}

func (r *row) wrong(name, what string) {
	if r.why == "" {
		r.why = fmt.Sprintf("%s %q is not %s", name, r.text(name), what)
	}
}

// within wants a job that a server would take, however large the fleet. CPUs and
// memory may be in any unit: they are only held against those of the fleet.
func (r *row) within(s *ares.Spec) {
	members := max(s.Members, 1)
	if s.GPUs > ares.MaxGPUsPerMember || members > ares.MaxMembers || members*s.GPUs > ares.MaxJobGPUs {
		r.why = cmp.Or(r.why, fmt.Sprintf("%d times %d GPUs are more than a job may have (%d members, %d GPUs each, %d in all)",
			members, s.GPUs, ares.MaxMembers, ares.MaxGPUsPerMember, ares.MaxJobGPUs))
	}
}

// number reads a whole number from 0 on; "" is 0 in a column that may be absent.
func (r *row) number(name string) int {
	s := r.text(name)
	if _, there := r.columns[name]; s == "" && !there {
		return 0
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 || n > 1<<31 {
		r.wrong(name, "a whole number")
	}
	return n
}

// seconds reads a number of seconds from 0 on.
func (r *row) seconds(name string) time.Duration {
	v, err := strconv.ParseFloat(r.text(name), 64)
	if err != nil || !(v >= 0 && v < 1e10) {
		r.wrong(name, "a number of seconds")
		return 0
	}
	return time.Duration(v * float64(time.Second))
}

// at reads a time of the given form, since the beginning of 1970.
func (r *row) at(name, form string) time.Duration {
	v, err := time.Parse(form, r.text(name))
	if err != nil || v.Year() < 1970 || v.Year() > 2200 {
		r.wrong(name, "a time such as "+form)
		return 0
	}
	return time.Duration(v.Unix()) * time.Second
}
