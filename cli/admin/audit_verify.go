package admin

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/audit"
	"github.com/ares-scheduler/ares/cli/command"
	"github.com/ares-scheduler/ares/cli/exit"
	"github.com/ares-scheduler/ares/cli/output"
	"github.com/ares-scheduler/ares/server"
	"github.com/ares-scheduler/ares/sim"
)

// verifyFlags are the flags of "ares audit verify".
type verifyFlags struct {
	dir, key, recordings string
	files                []string
	decisions            bool
}

// verified is the result of "ares audit verify".
type verified struct {
	*audit.Report

	Decisions *sim.DecisionsReport `json:"decisions,omitempty"`
}

func (a *commands) auditVerifyCommand() *cobra.Command {
	var f verifyFlags
	var o output.Flags
	c := &cobra.Command{
		Use: "verify", Short: "Verify that the audit log was not changed", Args: command.ExactArgs(),
		Long: `Read the whole log and report every entry that was changed, moved or removed. Without --dir
the server verifies its own log, and compares its end with a mark in the store and with the
history database. It also compares every entry with its copy in history. With --dir the command
reads the log files itself and needs no server. Its output says what the log was not compared with.

The command exits with 0 only if the log was not changed and, with --decisions, the recordings
agree with it. It exits with 1 if something was changed or cannot be read, and with 2 if a flag
is wrong.

With --decisions the command also reads the recordings of the scheduler's decisions on this
machine. It compares them with their digests in the log, lets the engine decide again, and
compares the decisions.`,
		Example: `  ares audit verify
  ares audit heads >> audit-heads.jsonl
  ares audit verify --head audit-heads.jsonl
  ares audit verify --decisions --recordings recordings`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			heads, err := readHeadFiles(f.files)
			if err != nil {
				return err
			}
			var r verified
			if f.dir != "" {
				r.Report, err = audit.Verify(f.dir, audit.Check{Heads: heads, Key: f.key, NotCompared: []string{
					"the mark in the store: no server was asked", "history: no server was asked",
				}})
			} else {
				r.Report, err = a.verifyThere(cmd.Context(), heads, f.key)
			}
			if err == nil && f.decisions {
				r.Decisions, err = a.verifyDecisions(cmd.Context(), &f)
			}
			if err != nil {
				return err
			}
			if err = a.PrintValue(o.Format, r, func(w io.Writer) { writeVerified(w, &r) }); err != nil {
				return err
			}
			if !r.OK() || r.Decisions != nil && !r.Decisions.OK() {
				return &exit.Error{Code: exit.Failed}
			}
			return nil
		},
	}
	c.Flags().StringVar(&f.dir, "dir", "", "directory of a log to verify on this machine, without a server")
	c.Flags().StringArrayVar(&f.files, "head", nil, "file with signed heads from \"ares audit heads\"; may be repeated")
	c.Flags().StringVar(&f.key, "key", "", "public key that verifies the signatures (default the key in --head, or else the key in the log)")
	c.Flags().BoolVar(&f.decisions, "decisions", false, "also replay the recorded decisions, and compare the recordings with the log")
	c.Flags().StringVar(&f.recordings, "recordings", "", "directory of the recordings (default recordings in the data directory, or beside --dir)")
	o.AddOutput(c)
	return c
}

// verifyDecisions compares the recordings on this machine with the log of a server, or with the log in --dir.
func (a *commands) verifyDecisions(ctx context.Context, f *verifyFlags) (*sim.DecisionsReport, error) {
	dir := f.recordings
	entries := func() ([]audit.Entry, error) { return audit.Find(f.dir, audit.Query{Object: sim.RecordingObject}) }
	switch {
	case f.dir == "":
		entries = func() ([]audit.Entry, error) { return a.recordingEntries(ctx) }
		if dir == "" {
			dir = server.RecordingDir(a.Dir())
		}
	case dir == "":
		dir = server.RecordingDir(filepath.Dir(filepath.Clean(f.dir)))
	}
	if _, err := os.Stat(dir); err != nil && f.dir == "" { // beside the files of a log, missing recordings are a fault
		return nil, exit.Usagef("the recordings cannot be read (%s): run the command on the server's machine, and name their directory with --recordings", err)
	}
	r, err := sim.VerifyDecisions(dir, entries, a.Version)
	if err == nil && r.Files == 0 && r.Removed == 0 && r.OK() {
		return nil, ares.Errorf(ares.NotFound, "the audit log mentions no recording in %s: check recording.enabled on the server, or name the directory with --recordings", dir)
	}
	return r, err
}

// recordingEntries reads the entries about recordings from the log of the connected server.
func (a *commands) recordingEntries(ctx context.Context) ([]audit.Entry, error) {
	c, err := a.Connect()
	if err != nil {
		return nil, err
	}
	defer func() { _ = c.Close() }() // closing can lose no data, because the connection was only read
	req := &apipb.ListAuditEntriesRequest{Object: sim.RecordingObject, PageSize: 1000, OldestFirst: true, OwnLog: true}
	var out []audit.Entry
	err = c.AuditEntries(ctx, req, func(page *apipb.ListAuditEntriesResponse) (bool, error) {
		for _, e := range page.GetEntries() {
			out = append(out, audit.Entry{Time: e.GetTime().AsTime(), Action: e.GetAction(), Object: e.GetObject(), After: e.GetAfterDigest(), Detail: e.GetDetail()})
		}
		return true, nil
	})
	return out, err
}

// readHeadFiles reads signed heads from files with one head per line.
func readHeadFiles(files []string) ([]audit.Head, error) {
	var out []audit.Head
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, exit.Usagef("--head: %s", err)
		}
		found := false
		for n, line := range strings.Split(string(data), "\n") {
			if strings.TrimSpace(line) == "" {
				continue
			}
			h, err := audit.ReadHead([]byte(line))
			if err != nil {
				return nil, exit.Usagef("--head %s, line %d: %s", file, n+1, err)
			}
			out, found = append(out, h), true
		}
		if !found {
			return nil, exit.Usagef("--head %s: the file has no signed head", file)
		}
	}
	return out, nil
}

// verifyThere asks the server to verify its own audit log.
func (a *commands) verifyThere(ctx context.Context, heads []audit.Head, key string) (*audit.Report, error) {
	c, err := a.Connect()
	if err != nil {
		return nil, err
	}
	defer func() { _ = c.Close() }() // closing can lose no data, because the connection was only read
	var kept []*apipb.AuditHead
	for i := range heads {
		h := &heads[i]
		kept = append(kept, &apipb.AuditHead{
			Kind: string(h.Kind), N: strconv.FormatUint(h.Number, 10), Server: h.Server, Seq: strconv.FormatUint(h.Sequence, 10), Hash: h.Hash,
			Time: h.Time.Format(time.RFC3339Nano), Key: h.Key, Signature: h.Signature,
		})
	}
	m, err := c.VerifyAudit(ctx, kept...)
	if err != nil {
		return nil, err
	}
	return reportOf(m, key), nil
}

// reportOf converts the answer of a server. If a key is given, the log must be signed with it.
func reportOf(m *apipb.VerifyAuditResponse, key string) *audit.Report {
	number := func(s string) uint64 {
		n, _ := strconv.ParseUint(s, 10, 64) // a text that is not a number is shown as 0
		return n
	}
	r := &audit.Report{
		Segments: int(m.GetSegments()), Entries: number(m.GetEntries()), First: number(m.GetFirst()), Last: number(m.GetLast()), Hash: m.GetHash(),
		Heads: int(m.GetHeads()), Signed: number(m.GetSigned()), Key: m.GetKey(), More: int(m.GetMoreFaults()), Faults: []audit.Fault{},
		Compared: m.GetCompared(), NotCompared: m.GetNotCompared(),
	}
	for _, f := range m.GetFaults() {
		r.Faults = append(r.Faults, audit.Fault{File: f.GetFile(), Line: int(f.GetLine()), Text: f.GetText()})
	}
	if key != "" && r.Key != key {
		r.Faults = append(r.Faults, audit.Fault{File: "the server's log", Text: fmt.Sprintf("is signed with the key %s", r.Key)})
	}
	return r
}

func writeVerified(w io.Writer, r *verified) {
	writeReport(w, r.Report)
	if r.Decisions != nil {
		writeDecisions(w, r.Decisions)
	}
}

func writeReport(w io.Writer, r *audit.Report) {
	for _, f := range r.Faults {
		output.Printf(w, "%s\n", output.Clean(f.String()))
	}
	if r.More > 0 {
		output.Printf(w, "and %d more\n", r.More)
	}
	word := "was not changed"
	if !r.OK() {
		word = "WAS CHANGED"
	}
	output.Printf(w, "The log %s: entries %d to %d in %s, signed up to %d.\n", word, r.First, r.Last, output.Count(int32(r.Segments), "file"), r.Signed)
	output.Printf(w, "Entry %d has the hash %.16s.\n", r.Last, output.Clean(r.Hash))
	if r.Last > r.Signed {
		output.Printf(w, "Entries from %d on are not signed yet: verify cannot detect their removal.\n", r.Signed+1)
	}
	if len(r.Compared) > 0 {
		output.Printf(w, "It was compared with %s.\n", output.Clean(strings.Join(r.Compared, ", ")))
	}
	for _, missing := range r.NotCompared {
		output.Printf(w, "It was not compared with %s.\n", output.Clean(missing))
	}
	if r.Key != "" {
		output.Printf(w, "Signed with the key %s\n", output.Clean(r.Key))
	}
}

func writeDecisions(w io.Writer, r *sim.DecisionsReport) {
	for _, f := range r.Faults {
		output.Printf(w, "%s\n", output.Clean(f))
	}
	word := "were not changed"
	if !r.OK() {
		word = "WERE CHANGED"
	}
	output.Printf(w, "The recordings %s: %s, %d decisions replayed, %d of them equal.\n", word, output.Count(int32(r.Files), "file"), r.Decisions, r.Equal)
	if r.Removed > 0 {
		output.Printf(w, "The server removed %s because of the limits on recordings, the last on %s.\n", output.Count(int32(r.Removed), "older recording"), r.RemovedAt.UTC().Format(time.RFC3339))
	}
	for _, gap := range r.Gaps {
		output.Printf(w, "Decisions were not recorded from %s.\n", output.Clean(gap))
	}
	if r.Uncovered > 0 {
		output.Printf(w, "The last %d bytes have no digest in the log yet.\n", r.Uncovered)
	}
	for _, name := range r.Unknown {
		output.Printf(w, "%s is not in this log: it was not compared.\n", output.Clean(name))
	}
	for _, name := range r.OtherVersion {
		output.Printf(w, "%s was not changed, but another version of Ares made it: its decisions were not compared.\n", output.Clean(name))
	}
}
