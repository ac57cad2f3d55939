package host

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/cli/command"
	"github.com/ares-scheduler/ares/cli/exit"
	"github.com/ares-scheduler/ares/cli/output"
)

// A documentKey is a key of the source document, with the records of Ares that have its content.
type documentKey struct {
	prefix  string
	rooms   []string // prefixes of Ares' keys
	content string
	// The function `view` returns the value under the key, or nil if there is none.
	view func(*storedJob) any
}

// documentKeys are the keys that the source document reads with etcdctl.
var documentKeys = []documentKey{
	{"/jobs/", []string{"jobs/"}, "the submitted job", func(j *storedJob) any { return j.job }},
	{"/state/", []string{"jobs/", "runs/"}, "the state, attempt and reason of a job", viewState},
	{"/queue/pending/", []string{"jobs/", "runs/"}, "waiting jobs, highest priority first; Ares computes the queue from jobs and runs", viewQueue},
	{"/topology/", []string{"nodes/"}, "devices and links of a node; the network is in topology/fleet", nil},
	{"/locks/", []string{"leases/"}, "the lease of a running attempt, and the claim of each rank", nil},
	{"/fencing/", []string{"runs/"}, "the fence of the current attempt", viewFence},
	{"/results/", []string{"runs/"}, "the outcome of each attempt", viewResults},
	{"/retry/", []string{"runs/"}, "the number of retries and the time of the next attempt", viewRetry},
}

// storedJob is what the store contains about a job.
type storedJob struct {
	id  string
	job map[string]any
	run *storedRun
	rev string // of the run
}

// storedRun is the part of a run's record that the views show.
type storedRun struct {
	Phase     string `json:"phase"`
	Reason    string `json:"reason"`
	Placed    int    `json:"placed"`
	Retries   int    `json:"retries"`
	Losses    int    `json:"losses"`
	NotBefore string `json:"not_before"` // Unix microseconds
	Attempts  []struct {
		Number   int    `json:"number"`
		Fence    string `json:"fence"`
		EndedAt  string `json:"ended_at"`
		Outcome  string `json:"outcome"`
		Reason   string `json:"reason"`
		ExitCode int    `json:"exit_code"`
	} `json:"attempts"`
}

func (j *storedJob) phase() string {
	if j.run == nil {
		return string(ares.Pending)
	}
	return j.run.Phase
}

func (j *storedJob) priority() int {
	spec, _ := j.job["spec"].(map[string]any)
	p, ok := spec["priority"].(float64)
	if !ok {
		return ares.DefaultPriority
	}
	return int(p)
}

// acceptedAt returns the time of the submission in Unix microseconds, or 0 if it is not known.
func (j *storedJob) acceptedAt() int64 {
	text, _ := j.job["accepted_at"].(string)
	us, _ := strconv.ParseInt(text, 10, 64)
	return us
}

func viewState(j *storedJob) any {
	v := map[string]any{"job_id": j.id, "state": j.phase()}
	if j.run != nil {
		v["attempt"], v["reason"] = j.run.Placed, j.run.Reason
	}
	return v
}

func viewQueue(j *storedJob) any {
	if !ares.Phase(j.phase()).Waiting() {
		return nil
	}
	return map[string]any{"job_id": j.id, "state": j.phase(), "priority": j.priority()}
}

func viewFence(j *storedJob) any {
	if j.run == nil || len(j.run.Attempts) == 0 {
		return nil
	}
	a := j.run.Attempts[len(j.run.Attempts)-1]
	if a.EndedAt != "" && a.EndedAt != "0" {
		return nil
	}
	// Right after the placement, the fence is the revision of the record itself.
	return map[string]any{"job_id": j.id, "attempt": a.Number, "fence": cmp.Or(a.Fence, j.rev)}
}

func viewResults(j *storedJob) any {
	var ended []any
	if j.run != nil {
		for _, a := range j.run.Attempts {
			if a.Outcome != "" {
				ended = append(ended, map[string]any{"attempt": a.Number, "outcome": a.Outcome, "exit_code": a.ExitCode, "reason": a.Reason})
			}
		}
	}
	if ended == nil {
		return nil
	}
	return map[string]any{"job_id": j.id, "state": j.phase(), "attempts": ended}
}

func viewRetry(j *storedJob) any {
	if j.run == nil || j.run.Retries+j.run.Losses == 0 {
		return nil
	}
	v := map[string]any{"job_id": j.id, "retries": j.run.Retries, "losses": j.run.Losses}
	if us, err := strconv.ParseInt(j.run.NotBefore, 10, 64); err == nil && us > 0 {
		v["not_before"] = time.UnixMicro(us).UTC().Format(time.RFC3339)
	}
	return v
}

func (a *commands) debugKeysCommand() *cobra.Command {
	return &cobra.Command{
		Use: "keys", Short: "List the keys of the source document and the keys of Ares with the same content", Args: command.ExactArgs(),
		Example: "  ares debug keys",
		RunE: func(*cobra.Command, []string) error {
			t := output.Table{Head: []string{"KEY", "KEYS OF ARES", "CONTENT"}}
			for _, k := range documentKeys {
				t.Add(k.prefix, "/ares/"+strings.Join(k.rooms, " /ares/"), k.content)
			}
			a.WriteTable(a.Out, &t)
			return nil
		},
	}
}

func (a *commands) debugGetCommand(at *string) *cobra.Command {
	var prefix, keysOnly bool
	c := &cobra.Command{
		Use: "get KEY", Short: "Print a key and its value as JSON", Args: command.ExactArgs("KEY"),
		Example: `  ares debug get /jobs/ --prefix
  ares debug get "" --prefix --keys-only`,
		Long: `Print each key and its value as JSON, on two lines. KEY is a key of Ares, such as
/ares/nodes/gpu-17, or a key of the source document, such as /state/JOB. "ares debug keys" lists
the keys of the source document (see docs/reference/etcd-keys.md). A server reads the store, so the
command needs the rights of a platform administrator. It never shows secrets or token hashes. The
flag --http-server sets the REST address of the server.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.getKeys(cmd.Context(), *at, args[0], prefix, keysOnly)
		},
	}
	c.Flags().BoolVar(&prefix, "prefix", false, "print all keys that begin with KEY")
	c.Flags().BoolVar(&keysOnly, "keys-only", false, "print keys without values")
	return c
}

// getKeys prints the keys that match, in the form of the source document or of Ares.
func (a *commands) getKeys(ctx context.Context, at, key string, prefix, keysOnly bool) error {
	printed := 0
	show := func(k string, value any) error {
		if prefix && !strings.HasPrefix(k, key) || !prefix && k != key {
			return nil
		}
		printed++
		output.Printf(a.Out, "%s\n", output.Clean(k))
		if keysOnly {
			return nil
		}
		data, err := json.Marshal(value)
		output.Printf(a.Out, "%s\n", output.Clean(string(data)))
		return err
	}
	var err error
	if of := documentKeyOf(key); of != nil {
		err = a.showDocumentKeys(ctx, at, of, key, show)
	} else if below, own := strings.CutPrefix(key, "/ares/"); own || prefix && strings.HasPrefix("/ares/", key) {
		if !own {
			below = "" // such as "" or /, which all keys begin with
		}
		err = a.eachRecord(ctx, at, below, func(r *record) error { return show(r.Key, r.Value) })
	} else if !strings.HasPrefix(key, "/") {
		return exit.Usagef("there is no key %s: keys begin with /, such as /ares/%s", key, key)
	} else {
		return exit.Usagef("there is no key %s: use a key that begins with /ares/, or one that \"ares debug keys\" lists", key)
	}
	if err == nil && printed == 0 && !prefix {
		return ares.Errorf(ares.NotFound, "the store has no key %s: list keys with \"ares debug get %s --prefix --keys-only\"", key, key[:strings.LastIndexByte(key, '/')+1])
	}
	return err
}

func documentKeyOf(key string) *documentKey {
	for i := range documentKeys {
		if strings.HasPrefix(key, documentKeys[i].prefix) {
			return &documentKeys[i]
		}
	}
	return nil
}

// showDocumentKeys shows records of Ares under a prefix of the source document.
func (a *commands) showDocumentKeys(ctx context.Context, at string, of *documentKey, key string, show func(string, any) error) error {
	name := strings.TrimPrefix(key, of.prefix)
	jobs := map[string]*storedJob{}
	for _, room := range of.rooms {
		err := a.eachRecord(ctx, at, room+name, func(r *record) error {
			id := strings.TrimPrefix(r.Key, "/ares/"+room)
			if of.view == nil {
				return show(of.prefix+id, r.Value)
			}
			if jobs[id] == nil {
				jobs[id] = &storedJob{id: id}
			}
			return jobs[id].read(r)
		})
		if err != nil {
			return err
		}
	}
	return showJobs(of, jobs, show)
}

func showJobs(of *documentKey, jobs map[string]*storedJob, show func(string, any) error) error {
	sorted := slices.SortedFunc(func(yield func(*storedJob) bool) {
		for _, j := range jobs { // order-free: sorted
			if !yield(j) {
				return
			}
		}
	}, func(x, y *storedJob) int {
		if of.prefix == "/queue/pending/" {
			return cmp.Or(cmp.Compare(y.priority(), x.priority()), cmp.Compare(x.acceptedAt(), y.acceptedAt()), strings.Compare(x.id, y.id))
		}
		return strings.Compare(x.id, y.id)
	})
	for _, j := range sorted {
		if slices.Contains(of.rooms, "jobs/") && j.job == nil {
			continue // archived: its run is gone or about to go
		}
		if v := of.view(j); v != nil {
			if err := show(of.prefix+j.id, v); err != nil {
				return err
			}
		}
	}
	return nil
}

// The method `read` adds a record to what is known about a job.
func (j *storedJob) read(r *record) error {
	var body struct {
		Job map[string]any `json:"job"`
		Run *storedRun     `json:"run"`
	}
	if err := json.Unmarshal(r.Value, &body); err != nil {
		return ares.Errorf(ares.Internal, "the record %s cannot be read: %s", r.Key, err)
	}
	if body.Job != nil {
		j.job = body.Job
	}
	if body.Run != nil {
		j.run, j.rev = body.Run, r.Revision
	}
	return nil
}

// eachRecord reads the records of the store whose keys begin with /ares/ and the prefix.
func (a *commands) eachRecord(ctx context.Context, at, prefix string, do func(*record) error) error {
	return a.openStore(ctx, at, url.Values{"prefix": {prefix}}, func(r io.Reader) error {
		lines := bufio.NewReader(r)
		for {
			line, err := lines.ReadBytes('\n')
			if len(line) > 1 {
				var rec record
				if bad := json.Unmarshal(line, &rec); bad != nil {
					return ares.Errorf(ares.Internal, "the response is not from the REST API of an Ares server: %s", bad)
				}
				if bad := do(&rec); bad != nil {
					return bad
				}
			}
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err != nil {
				return fmt.Errorf("read the store: %w", err)
			}
		}
	})
}
