package verdict

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/ares-scheduler/ares/test/chaos/robustness/trace"
)

// Hub is the name of the hub's directory in a record. Every other directory with a description of a store is that of a cluster.
const Hub = "hub"

// The directory of a run contains these files beside the directories of the stores.
const (
	metaFile  = "federation.json"
	loansFile = "loans.jsonl"
)

// Run is the complete record of a run.
type Run struct {
	Meta      Meta
	Hub       *trace.Run
	Clusters  map[string]*trace.Run
	Loans     []Loans
	Witnesses map[string][]trace.Witness // by job, in all clusters
}

// Meta describes the whole federation.
type Meta struct {
	Seed   uint64            `json:"seed"`
	Start  time.Duration     `json:"start"`
	Healed time.Duration     `json:"healed"`
	End    time.Duration     `json:"end"`
	Quotas map[string]int    `json:"quotas"` // GPUs that a tenant may use at once, in all clusters together
	Nodes  map[string]string `json:"nodes"`  // the cluster of each node
	Events []Event           `json:"events"` // in order
}

// What is the kind of an Event.
type What string

// These are the events that explain why a job may be started in a second cluster, and which clusters share a quota.
const (
	Joined   What = "joined"
	Left     What = "left"
	Dead     What = "dead" // it is about to be declared dead
	Back     What = "back" // after it was declared dead, it is ready again
	Lost     What = "lost" // it was destroyed
	Restored What = "restored"
)

// Event is something that an administrator or a disaster did to the hub or to a cluster.
type Event struct {
	At      time.Duration `json:"at"`
	What    What          `json:"what"`
	Cluster string        `json:"cluster"`
	Alive   bool          `json:"alive"` // of Dead: the cluster still runs
}

// Loans is what the hub has lent, at one revision of its store.
type Loans struct {
	At       time.Duration `json:"at"`
	Revision int64         `json:"revision"`
	// Asking says that the hub was restored and may not have heard all its clusters yet. It then lends nothing, and its records are
	// partly those of the backup.
	Asking bool   `json:"asking,omitempty"`
	Loans  []Loan `json:"loans"`
}

// Loan is the part of a tenant's limit that a cluster may use.
type Loan struct {
	Tenant  string `json:"tenant"`
	Cluster string `json:"cluster"`
	GPUs    int    `json:"gpus"`
}

// LoanWriter appends states of the loans to a record.
type LoanWriter struct{ f *os.File }

// CreateLoans makes the file of the loans in the directory of a run.
func CreateLoans(dir string) (*LoanWriter, error) {
	f, err := os.Create(filepath.Join(dir, loansFile))
	return &LoanWriter{f}, err
}

// Write appends a state.
func (w *LoanWriter) Write(l Loans) error {
	data, err := json.Marshal(l)
	if err == nil {
		_, err = w.f.Write(append(data, '\n'))
	}
	return err
}

// Close closes the file.
func (w *LoanWriter) Close() error { return w.f.Close() }

// WriteMeta writes the description of a run and replaces the previous one.
func WriteMeta(dir string, m Meta) error {
	data, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, metaFile), append(data, '\n'), 0o600)
}

// Load reads the record of a run.
func Load(dir string) (*Run, error) {
	r := &Run{Clusters: map[string]*trace.Run{}, Witnesses: map[string][]trace.Witness{}}
	data, err := os.ReadFile(filepath.Join(dir, metaFile))
	if err == nil {
		err = json.Unmarshal(data, &r.Meta)
	}
	if err != nil {
		return nil, fmt.Errorf("read the record in %s: %w", dir, err)
	}
	stores, err := filepath.Glob(filepath.Join(dir, "*", trace.MetaFile))
	if err != nil {
		return nil, err
	}
	for _, file := range stores {
		one, bad := trace.Load(filepath.Dir(file))
		if bad != nil {
			return nil, bad
		}
		if name := filepath.Base(filepath.Dir(file)); name == Hub {
			r.Hub = one
		} else {
			r.Clusters[name] = one
		}
	}
	if r.Hub == nil {
		return nil, fmt.Errorf("the record in %s has no directory %s", dir, Hub)
	}
	if err = r.loadLoans(dir); err != nil {
		return nil, err
	}
	lines, err := filepath.Glob(filepath.Join(dir, trace.JobsDir, "*.trace"))
	for _, file := range lines {
		data, readErr := os.ReadFile(file)
		err = errors.Join(err, readErr)
		r.Witnesses[strings.TrimSuffix(filepath.Base(file), ".trace")] = trace.ParseWitnesses(string(data))
	}
	return r, err
}

func (r *Run) loadLoans(dir string) error {
	f, err := os.Open(filepath.Join(dir, loansFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	lines := bufio.NewReader(f)
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil // an incomplete line was left by a killed writer
		}
		if err != nil {
			return err
		}
		var l Loans
		if err = json.Unmarshal(line, &l); err != nil {
			return fmt.Errorf("%s: %w", loansFile, err)
		}
		r.Loans = append(r.Loans, l)
	}
}
