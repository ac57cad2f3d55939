package sim

import (
	"bufio"
	"cmp"
	"crypto/sha256"
	"encoding/csv"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	ares "github.com/ares-scheduler/ares"
)

// Arrival is one job of a trace.
type Arrival struct {
	At   time.Duration // since the start of the trace
	Runs time.Duration // runtime once placed; 0 for a job that never ends
	Spec ares.Spec
	Line int
	ID   string // the ID of the job in the trace, "" for none
	// Owner is the user who submitted the job, "" if the trace does not say.
	Owner string
}

// Trace contains the jobs of a trace in the order of their arrival. It also contains the rows that could not be
// read.
type Trace struct {
	Format     string
	Digest     string // of the file it was read from, "" for none
	Arrivals   []Arrival
	Bad        int       // number of bad rows, which are left out
	Problems   []Problem // details of the first bad rows
	Idle       int       // rows without work for a fleet, left out
	IdleReason string    // such as "ask for no GPUs"
	Ignored    []string  // unknown columns
	Unended    int       // jobs without a known end: their runtime is an estimate
	Assumed    int       // number of these jobs that run for AssumedRuntime
	Fleet      *Fleet    // the fleet that the jobs ran on, nil if the trace does not have it
	MilliCPU   bool      // CPUs are in thousandths of cores
}

// Problem is a row that could not be read.
type Problem struct {
	Line int
	Why  string
}

func (p Problem) String() string { return fmt.Sprintf("line %d: %s", p.Line, p.Why) }

// maxProblems is the largest number of bad rows that are reported individually. Further bad rows
// are only counted.
const maxProblems = 20

// Formats returns the names of the trace formats that can be read.
func Formats() []string { return []string{"openb", "philly", "deadlines", "slurm", "ares"} }

// This type says how to read the rows of one trace format.
type format struct {
	comma    rune // separator of formats without quotes; 0 for CSV
	required []string
	ignored  []string // known and not used
	optional []string
	milliCPU bool   // as in Trace
	idle     string // why rows are left out as idle
	arrival  func(r *row) (Arrival, rowUse)
}

// rowUse says whether a row is a job to schedule, a job without work, or a step of another job.
type rowUse int

const (
	rowJob  rowUse = iota // a job to schedule
	rowIdle               // a job without work for a fleet: only counted
	rowStep               // a step of a job that has its own row
)

// If a row has no work, jobUnless returns rowIdle. Otherwise it returns rowJob.
func jobUnless(nothing bool) rowUse {
	if nothing {
		return rowIdle
	}
	return rowJob
}

var formats = map[string]format{
	"openb": {
		required: []string{"name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli"},
		optional: []string{"gpu_spec", "creation_time", "deletion_time"},
		ignored:  []string{"qos", "pod_phase", "scheduled_time"}, milliCPU: true, arrival: openb,
	},
	"philly": {
		required: []string{"timestamp", "duration", "num_gpus", "cluster"}, ignored: []string{"gpu_time"},
		idle: "ask for no GPUs, or for no time", arrival: philly,
	},
	"deadlines": {
		required: []string{"job_id", "user", "num_gpu", "submit_time", "duration", "expect_time_list"},
		optional: []string{"best_effort", "model_name"},
		ignored:  []string{"iterations", "interval", "expect_value_list", "job_type"}, idle: "ask for no GPUs, or for no time", arrival: deadline,
	},
	"slurm": {
		comma: '|', required: []string{"JobID", "Submit", "ElapsedRaw", "AllocTRES"},
		optional: []string{"JobName", "User", "Account", "Partition", "Priority", "TimelimitRaw", "NNodes", "State"},
		idle:     "are jobs that never ran", arrival: slurm,
	},
}

// Read reads a trace. A row with an error is left out, counted, and reported with its line number. Read never
// guesses a missing or invalid value.
func Read(kind string, from io.Reader) (*Trace, error) {
	if kind == "ares" {
		return readHistory(from)
	}
	f, ok := formats[kind]
	if !ok {
		return nil, ares.Errorf(ares.Invalid, "unknown trace format %q: use one of %s", kind, strings.Join(Formats(), ", ")).At("format")
	}
	sum := sha256.New()
	in := lines{from: bufio.NewReaderSize(io.TeeReader(from, sum), 1<<16), comma: f.comma}
	head, err := in.next()
	if err != nil {
		return nil, fmt.Errorf("read the header: %w", err)
	}
	t := &Trace{Format: kind, MilliCPU: f.milliCPU, IdleReason: f.idle}
	if last := len(head) - 1; head[last] == "" { // sacct -p ends every line with a separator
		head = head[:last]
	}
	columns, err := t.columns(&f, kind, head)
	if err != nil {
		return nil, err
	}
	for {
		cells, err := in.next()
		var parse *csv.ParseError
		switch {
		case errors.Is(err, io.EOF):
			t.Digest = hex.EncodeToString(sum.Sum(nil))
			slices.SortStableFunc(t.Arrivals, func(a, b Arrival) int { return cmp.Compare(a.At, b.At) })
			return t, nil
		case errors.As(err, &parse):
			t.addProblem(in.line, parse.Err.Error())
			continue
		case err != nil:
			return nil, fmt.Errorf("read the trace: %w", err)
		}
		r := &row{columns: columns, cells: cells}
		if n := len(head); len(cells) != n && !(len(cells) == n+1 && cells[n] == "") {
			t.addProblem(in.line, fmt.Sprintf("the row has %d cells and the header %d", len(cells), n))
			continue
		}
		a, good := f.arrival(r)
		r.checkLimits(&a.Spec)
		switch {
		case r.why != "":
			t.addProblem(in.line, r.why)
		case good == rowIdle:
			t.Idle++
		case good == rowJob:
			a.Line = in.line
			t.Arrivals = append(t.Arrivals, a)
		}
	}
}

// This type reads rows, one per line. No cell of these formats has a line break. An unclosed quote therefore
// affects only one row and not the rest of the file.
type lines struct {
	from  *bufio.Reader
	comma rune // as format.comma
	line  int  // number of the last line read
}

// This method reads the next row that is not empty. If a row is invalid, the
// method returns a csv.ParseError, and the caller can continue with the next
// row.
func (l *lines) next() ([]string, error) {
	for {
		text, err := l.from.ReadString('\n')
		if text == "" && err != nil {
			return nil, err
		}
		l.line++
		text = strings.TrimRight(text, "\r\n")
		switch {
		case text == "":
		case l.comma != 0:
			return strings.Split(text, string(l.comma)), nil
		case !strings.Contains(text, `"`):
			return strings.Split(text, ","), nil
		default:
			return csv.NewReader(strings.NewReader(text)).Read()
		}
	}
}

// DetectFormat returns the trace format whose required columns all occur in the first line of the file. If no
// format or more than one format matches, DetectFormat returns "".
func DetectFormat(head string) string {
	if strings.HasPrefix(head, string(gzipMagic)) || strings.HasPrefix(head, `{"job":`) {
		return "ares"
	}
	found := ""
	for _, kind := range Formats() {
		f, ok := formats[kind]
		if !ok {
			continue
		}
		if len(f.missing(head)) > 0 {
			continue
		}
		if found != "" {
			return ""
		}
		found = kind
	}
	return found
}

// This method lists the required columns that a first line lacks.
func (f *format) missing(head string) []string {
	names := strings.Split(strings.TrimSpace(strings.TrimPrefix(head, "\ufeff")), string(cmp.Or(f.comma, ',')))
	var out []string
	for _, name := range f.required {
		if !slices.Contains(names, name) {
			out = append(out, name)
		}
	}
	return out
}

// ClosestFormat returns the trace format with the fewest columns missing from the first line. It also returns the
// names of the missing columns. If every format misses more than half of its columns, ClosestFormat returns "".
func ClosestFormat(head string) (kind string, missing []string) {
	for _, k := range Formats() {
		f, ok := formats[k]
		if !ok {
			continue
		}
		lacks := f.missing(head)
		if 2*len(lacks) <= len(f.required) && (kind == "" || len(lacks) < len(missing)) {
			kind, missing = k, lacks
		}
	}
	return kind, missing
}

// This method finds the position of each known column, and records the unknown columns.
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
			return nil, ares.Errorf(ares.Invalid, "trace format %s needs a column %s, but the header %q does not contain this column", kind, name, strings.Join(head, string(cmp.Or(f.comma, ','))))
		}
	}
	return columns, nil
}

func (t *Trace) addProblem(line int, why string) {
	t.Bad++
	if len(t.Problems) < maxProblems {
		t.Problems = append(t.Problems, Problem{line, why})
	}
}

// This type contains the cells of one row of a trace. It finds a cell by the name of its column. Only the first
// problem of a row is recorded.
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

func (r *row) wrong(name, what string) { r.problem(name, "is not "+what) }

func (r *row) problem(name, what string) {
	if r.why == "" {
		r.why = fmt.Sprintf("%s %q %s", name, r.text(name), what)
	}
}

// checkLimits reports a job that every server would reject, even a server with a larger fleet.
// The method does not check CPUs and memory, because their unit depends on the trace.
func (r *row) checkLimits(s *ares.Spec) {
	members := max(s.Members, 1)
	if s.GPUs > ares.MaxGPUsPerMember || members > ares.MaxMembers || members*s.GPUs > ares.MaxJobGPUs {
		r.why = cmp.Or(r.why, fmt.Sprintf("%d members of %d GPUs exceed the limits of a job (%d members, %d GPUs each, %d in all)",
			members, s.GPUs, ares.MaxMembers, ares.MaxGPUsPerMember, ares.MaxJobGPUs))
	}
}

// This method reads a whole number that is not negative. In an optional column, an empty cell
// counts as 0.
func (r *row) number(name string) int {
	s := r.text(name)
	if _, there := r.columns[name]; s == "" && !there {
		return 0
	}
	n, err := strconv.Atoi(s)
	if what := notWhole(n, err); what != "" {
		r.problem(name, what)
		return 0
	}
	return n
}

// notWhole returns why a text is not a whole number of 0 or more. The function returns "" if the text is
// such a number.
func notWhole(n int, err error) string {
	switch {
	case err != nil && !errors.Is(err, strconv.ErrRange):
		return "is not a whole number"
	case n < 0:
		return "is negative"
	case n > maxFigure:
		return fmt.Sprintf("is too large: at most %d", maxFigure)
	}
	return ""
}

// This method reads a number of seconds that is not negative.
func (r *row) seconds(name string) time.Duration {
	const most = 4e9 // so that the sum of two values is still a valid duration
	v, err := strconv.ParseFloat(r.text(name), 64)
	switch {
	case err != nil && !errors.Is(err, strconv.ErrRange) || math.IsNaN(v):
		r.wrong(name, "a number of seconds")
	case v < 0:
		r.problem(name, "is negative")
	case v > most:
		r.problem(name, "is too large: at most 4000000000 seconds")
	default:
		return time.Duration(v * float64(time.Second))
	}
	return 0
}

// This method reads a time in the given layout and returns it as a duration since 1970.
func (r *row) at(name, form string) time.Duration {
	v, err := time.Parse(form, r.text(name))
	if err != nil || v.Year() < 1970 || v.Year() > 2200 {
		r.wrong(name, "a time such as "+form)
		return 0
	}
	return time.Duration(v.Unix()) * time.Second
}
