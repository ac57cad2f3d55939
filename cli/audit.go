package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"google.golang.org/protobuf/proto"

	"github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/audit"
	"github.com/ares-scheduler/ares/client"
)

func (a *app) auditCommand() *cobra.Command {
	return group("audit", "Who did what, and what was refused",
		`Each server keeps a log of every call that changes something and of every refusal.
Its entries are chained by their hashes, and its end is signed each minute. Keep a
signed head elsewhere now and then ("ares audit heads > FILE"): "ares audit verify
--head FILE" then also finds out whether the end of the log was cut off.

"list" shows the entries of all servers that share a history. The others are about the
log of the server that is asked: name several one by one with --server.`,
		a.auditListCommand(), a.auditVerifyCommand(), a.auditExportCommand(), a.auditHeadsCommand())
}

// auditFlags are the filters of entries as people write them.
type auditFlags struct{ user, tenant, action, object, status, code, since, until string }

func (f *auditFlags) add(flags *pflag.FlagSet) {
	flags.SortFlags = false
	flags.StringVar(&f.user, "user", "", "only what this user did")
	tenantFlag(flags, &f.tenant, "only what is about this tenant")
	flags.StringVar(&f.action, "action", "", "only this, such as SUBMIT_JOB")
	flags.StringVar(&f.object, "object", "", "only what is about this: a job's ID, queue/red/night, or queue/ for all queues")
	flags.StringVar(&f.status, "status", "", "only what was done, was refused, or is unknown")
	flags.StringVar(&f.code, "code", "", "only what failed with this code, such as forbidden")
	flags.StringVar(&f.since, "since", "", "only from then on: 2026-01-31, 2026-01-31T22:00, 22:00, or 90m, 4h, 2d ago")
	flags.StringVar(&f.until, "until", "", "only before then, as --since")
}

func (f *auditFlags) request(now time.Time) (*apipb.ListAuditEntriesRequest, error) {
	begin, end, err := readPeriod("since", f.since, "until", f.until, now)
	if err != nil {
		return nil, err
	}
	return &apipb.ListAuditEntriesRequest{
		User: f.user, TenantId: f.tenant, Action: f.action, Object: f.object, Status: f.status, Code: f.code, Since: begin, Until: end,
	}, nil
}

func (a *app) auditListCommand() *cobra.Command {
	var f auditFlags
	var o readFlags
	var limit int
	var own bool
	c := &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List entries, the latest first", Args: exactly(),
		Example: "  ares audit list --status refused --since 1h\n  ares audit list --object job-… \n  ares audit list --user token:ci --action SUBMIT_JOB",
		RunE: a.with(func(ctx context.Context, c *client.Client, _ []string) error {
			if limit < 1 {
				return usagef("--limit %d: want at least 1", limit)
			}
			req, err := f.request(a.now())
			if err != nil {
				return err
			}
			req.PageSize, req.OwnLog = int32(min(limit, 1000)), own
			list := &apipb.ListAuditEntriesResponse{}
			err = c.AuditEntries(ctx, req, func(page *apipb.ListAuditEntriesResponse) (bool, error) {
				list.Server, list.FromHistory = page.GetServer(), page.GetFromHistory()
				list.Entries = append(list.Entries, page.GetEntries()...)
				return len(list.GetEntries()) < limit, nil
			})
			if err != nil {
				return err
			}
			list.Entries, list.NextPageToken = list.Entries[:min(limit, len(list.Entries))], ""
			return a.print(&o, list, func(w io.Writer, _ proto.Message) {
				a.writeAudit(w, list.GetEntries())
				switch {
				case list.GetFromHistory():
					say(w, "From history: of every server that shares it.\n")
				case own:
					say(w, "From the log of server %s.\n", clean(list.GetServer()))
				default:
					say(w, "From the log of server %s alone: history does not answer.\n", clean(list.GetServer()))
				}
			})
		}),
	}
	f.add(c.Flags())
	c.Flags().IntVar(&limit, "limit", 100, "how many entries at most")
	c.Flags().BoolVar(&own, "own", false, "only the log of the server that is asked, as it stands there")
	o.addOutput(c)
	return c
}

func (a *app) writeAudit(w io.Writer, entries []*apipb.AuditEntry) {
	if len(entries) == 0 {
		say(w, "No entries.\n")
		return
	}
	t := table{head: []string{"TIME", "ACTION", "STATUS", "CODE", "USER", "TENANT", "OBJECT", "SOURCE", "DETAIL"}}
	for _, e := range entries {
		status := e.GetStatus()
		if e.GetCount() > 1 {
			status += fmt.Sprintf(" ×%d", e.GetCount())
		}
		t.add(e.GetTime().AsTime().Local().Format("2006-01-02 15:04:05"), e.GetAction(), status, e.GetCode(), e.GetUser(), e.GetTenantId(),
			e.GetObject(), strings.TrimSpace(e.GetDoor()+" "+e.GetSource()), e.GetDetail())
	}
	t.write(w, a.color)
}

func (a *app) auditExportCommand() *cobra.Command {
	var f auditFlags
	c := &cobra.Command{
		Use: "export", Short: "Print entries as lines of JSON, the oldest first", Args: exactly(),
		Long: `Prints entries of the server's log as lines of JSON, the oldest first, each as it stands in the log with its
hash and that of the entry before it. To who reads the audit of some tenants only, what
somebody outside of them tried is told without the name, and every entry without hashes.`,
		Example: "  ares audit export --since 2026-01-01 > january.jsonl",
		RunE: a.with(func(ctx context.Context, c *client.Client, _ []string) error {
			req, err := f.request(a.now())
			if err != nil {
				return err
			}
			req.PageSize, req.OldestFirst, req.OwnLog = 1000, true, true
			out := bufio.NewWriter(a.out)
			err = c.AuditEntries(ctx, req, func(page *apipb.ListAuditEntriesResponse) (bool, error) {
				for _, m := range page.GetEntries() {
					line, lineErr := auditLine(m)
					if lineErr != nil {
						return false, lineErr
					}
					_, _ = out.Write(append(line, '\n')) // Flush tells
				}
				return true, nil
			})
			if err != nil {
				return err
			}
			return out.Flush()
		}),
	}
	f.add(c.Flags())
	return c
}

// auditLine is an entry as it stands in the log, or as much of it as is told to
// readers of some tenants: without hashes, so there is none to check.
func auditLine(m *apipb.AuditEntry) ([]byte, error) {
	seq, err := strconv.ParseUint(m.GetSequence(), 10, 64)
	if err != nil {
		return nil, fmt.Errorf("the server sent an entry without a sequence: %w", err)
	}
	e := audit.Entry{
		Sequence: seq, Time: m.GetTime().AsTime(), Server: m.GetServer(), Cluster: m.GetCluster(), Action: m.GetAction(), User: m.GetUser(),
		Tenant: m.GetTenantId(), Outside: m.GetOutside(), Object: m.GetObject(), Source: m.GetSource(), Door: m.GetDoor(), Request: m.GetRequestDigest(),
		Before: m.GetBeforeDigest(), After: m.GetAfterDigest(), Status: audit.Status(m.GetStatus()), Code: m.GetCode(),
		RequestID: m.GetRequestId(), Detail: m.GetDetail(), Count: int(m.GetCount()), Previous: m.GetPrevious(),
	}
	if m.GetSince() != nil {
		e.Since = m.GetSince().AsTime()
	}
	if m.GetHash() == "" {
		return json.Marshal(e)
	}
	line, err := e.Line()
	if err == nil && e.Hash != m.GetHash() {
		return nil, ares.Errorf(ares.Internal, "entry %d has not the hash that it came with: see `ares audit verify`, and that ares is of the server's version", seq)
	}
	return line, err
}

func (a *app) auditHeadsCommand() *cobra.Command {
	return &cobra.Command{
		Use: "heads", Short: "Sign the end of the log as it is now, and print that", Args: exactly(),
		Long: `Has the server sign the end of its log as it is now. Keep the line somewhere the server
cannot write: "ares audit verify --head FILE" tells later whether the log still holds
what it held.`,
		Example: "  ares audit heads >> audit-heads.jsonl",
		RunE: a.with(func(ctx context.Context, c *client.Client, _ []string) error {
			m, err := c.AuditHead(ctx)
			if err != nil {
				return err
			}
			h, err := auditHead(m)
			if err != nil {
				return err
			}
			line, err := json.Marshal(h)
			if err != nil {
				return fmt.Errorf("print: %w", err)
			}
			say(a.out, "%s\n", line)
			return nil
		}),
	}
}

// auditHead is a head as a file holds it, its signature checked.
func auditHead(m *apipb.AuditHead) (audit.Head, error) {
	number, err := strconv.ParseUint(m.GetN(), 10, 64)
	seq, badSeq := strconv.ParseUint(m.GetSeq(), 10, 64)
	at, badTime := time.Parse(time.RFC3339Nano, m.GetTime())
	h := audit.Head{
		Kind: audit.HeadKind(m.GetKind()), Number: number, Server: m.GetServer(), Sequence: seq, Hash: m.GetHash(), Time: at,
		Key: m.GetKey(), Signature: m.GetSignature(),
	}
	if err != nil || badSeq != nil || badTime != nil || h.Check() != nil {
		return h, ares.Errorf(ares.Internal, "the server sent a head that is not signed as it should be")
	}
	return h, nil
}

func (a *app) auditVerifyCommand() *cobra.Command {
	var dir, key string
	var files []string
	var o readFlags
	c := &cobra.Command{
		Use: "verify", Short: "Find out whether the log is as it was written", Args: exactly(),
		Long: `Reads the whole log and reports every entry that was changed, moved or taken out. Without
--dir the server reads its own; with it the files are read here, and no server is
asked. Exit code 1 when something is wrong.`,
		Example: "  ares audit verify\n  ares audit verify --head audit-heads.jsonl\n  ares audit verify --dir /var/lib/ares/audit",
		RunE: func(cmd *cobra.Command, _ []string) error {
			heads, err := readHeadFiles(files)
			if err != nil {
				return err
			}
			var report *audit.Report
			if dir != "" {
				report, err = audit.Verify(dir, audit.Check{Heads: heads, Key: key})
			} else {
				report, err = a.verifyThere(cmd.Context(), heads, key)
			}
			if err != nil {
				return err
			}
			if err = a.printValue(o.output, report, func(w io.Writer) { writeReport(w, report) }); err != nil {
				return err
			}
			if !report.OK() {
				return &exitError{exitFailed}
			}
			return nil
		},
	}
	c.Flags().StringVar(&dir, "dir", "", "directory of a log to read here, instead of asking a server")
	c.Flags().StringArrayVar(&files, "head", nil, "file with signed heads that were kept elsewhere; may be repeated")
	c.Flags().StringVar(&key, "key", "", "public key that must have signed (default that of --head, else that of the log)")
	o.addOutput(c)
	return c
}

// readHeadFiles reads heads, one on a line.
func readHeadFiles(files []string) ([]audit.Head, error) {
	var out []audit.Head
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, usagef("--head: %s", err)
		}
		found := false
		for n, line := range strings.Split(string(data), "\n") {
			if strings.TrimSpace(line) == "" {
				continue
			}
			h, err := audit.ReadHead([]byte(line))
			if err != nil {
				return nil, usagef("--head %s, line %d: %s", file, n+1, err)
			}
			out, found = append(out, h), true
		}
		if !found {
			return nil, usagef("--head %s: there is no head in it", file)
		}
	}
	return out, nil
}

// verifyThere has the server read its log.
func (a *app) verifyThere(ctx context.Context, heads []audit.Head, key string) (*audit.Report, error) {
	c, err := a.connect()
	if err != nil {
		return nil, err
	}
	defer func() { _ = c.Close() }() // it was only read from
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
	number := func(s string) uint64 {
		n, _ := strconv.ParseUint(s, 10, 64) // 0 is shown when it is none
		return n
	}
	r := &audit.Report{
		Segments: int(m.GetSegments()), Entries: number(m.GetEntries()), First: number(m.GetFirst()), Last: number(m.GetLast()), Hash: m.GetHash(),
		Heads: int(m.GetHeads()), Signed: number(m.GetSigned()), Key: m.GetKey(), More: int(m.GetMoreFaults()), Faults: []audit.Fault{},
	}
	for _, f := range m.GetFaults() {
		r.Faults = append(r.Faults, audit.Fault{File: f.GetFile(), Line: int(f.GetLine()), Text: f.GetText()})
	}
	if key != "" && r.Key != key {
		r.Faults = append(r.Faults, audit.Fault{File: "the server's log", Text: fmt.Sprintf("is signed with the key %s", r.Key)})
	}
	return r, nil
}

func writeReport(w io.Writer, r *audit.Report) {
	for _, f := range r.Faults {
		say(w, "%s\n", clean(f.String()))
	}
	if r.More > 0 {
		say(w, "and %d more\n", r.More)
	}
	word := "is as it was written"
	if !r.OK() {
		word = "is NOT as it was written"
	}
	say(w, "The log %s: entries %d to %d in %s, signed up to %d.\n", word, r.First, r.Last, count(int32(r.Segments), "file"), r.Signed)
	if r.Last > r.Signed {
		say(w, "Entries from %d on are not signed yet: were they cut off, that would not show.\n", r.Signed+1)
	}
	if r.Key != "" {
		say(w, "Signed with the key %s\n", clean(r.Key))
	}
}
