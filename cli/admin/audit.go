package admin

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"google.golang.org/protobuf/proto"

	"github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/audit"
	"github.com/ares-scheduler/ares/cli/command"
	"github.com/ares-scheduler/ares/cli/exit"
	"github.com/ares-scheduler/ares/cli/output"
	"github.com/ares-scheduler/ares/client"
)

func (a *commands) auditCommand() *cobra.Command {
	return command.Group("audit", "Show, export and verify the audit log", "  ares audit list --limit 20",
		`Each server writes two kinds of calls to its audit log: calls that change something, and
rejected calls. Each entry contains the hash of the previous entry. Every minute, the server
signs the last entry. From time to time, run "ares audit heads > FILE" to save a signature of
the last entry. Store this signature, called a head, on another machine. With a stored head,
"ares audit verify --head FILE" can also detect that the end of the log was removed, or that an
older copy of the server's whole data directory was put back.

"ares audit list" shows the entries of all servers that share a history database. The other
audit commands use the log of one server, which you select with --server.`,
		a.auditListCommand(), a.auditVerifyCommand(), a.auditExportCommand(), a.auditHeadsCommand())
}

// auditFlags are the flags that filter audit entries.
type auditFlags struct{ user, tenant, action, object, status, code, since, until string }

func (f *auditFlags) add(flags *pflag.FlagSet) {
	flags.SortFlags = false
	flags.StringVar(&f.user, "user", "", "only entries of this user")
	command.TenantFlag(flags, &f.tenant, "only entries about this tenant")
	flags.StringVar(&f.action, "action", "", "only entries with this action, such as SUBMIT_JOB")
	flags.StringVar(&f.object, "object", "", "only entries about this object: a job's ID, queue/red/night, or queue/ for all queues")
	flags.StringVar(&f.status, "status", "", "only entries with this status: done, refused or unknown (or SUCCESS, FAILURE, UNKNOWN)")
	flags.StringVar(&f.code, "code", "", "only failures with this code, such as forbidden")
	flags.StringVar(&f.since, "since", "", "only entries since this time: 2026-01-31, 2026-01-31T22:00, 22:00, or 90m, 4h, 2d ago")
	flags.StringVar(&f.until, "until", "", "only entries before this time, in the same formats")
}

func (f *auditFlags) request(now time.Time) (*apipb.ListAuditEntriesRequest, error) {
	begin, end, err := command.ReadTimeRange("since", f.since, "until", f.until, now)
	if err != nil {
		return nil, err
	}
	return &apipb.ListAuditEntriesRequest{
		User: f.user, TenantId: f.tenant, Action: f.action, Object: f.object, Status: ownStatus(f.status), Code: f.code, Since: begin, Until: end,
	}, nil
}

func (a *commands) auditListCommand() *cobra.Command {
	var f auditFlags
	var o output.Flags
	var limit int
	var own bool
	c := &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List audit entries, newest first", Args: command.ExactArgs(),
		Example: `  ares audit list --status refused --since 1h
  ares audit list --user token:ci --action SUBMIT_JOB`,
		RunE: a.WithClient(func(ctx context.Context, c *client.Client, _ []string) error {
			if limit < 1 {
				return exit.Usagef("--limit %d: use 1 or more", limit)
			}
			req, err := f.request(a.Now())
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
			return a.PrintList(&o, list, func(proto.Message) *output.Table {
				t := auditTable(list.GetEntries())
				switch {
				case list.GetFromHistory():
					t.Note = "From history, all servers."
				case own:
					t.Note = fmt.Sprintf("From the log of server %s.", output.Clean(list.GetServer()))
				default:
					t.Note = fmt.Sprintf("From the log of server %s only: history does not answer.", output.Clean(list.GetServer()))
				}
				if len(list.GetEntries()) == 0 {
					t.Empty += "\n" + t.Note
				}
				return t
			})
		}),
	}
	f.add(c.Flags())
	c.Flags().IntVar(&limit, "limit", 100, "maximum number of entries")
	c.Flags().BoolVar(&own, "own", false, "only the log file of this server")
	return o.AddRows(c)
}

func auditTable(entries []*apipb.AuditEntry) *output.Table {
	t := &output.Table{
		Head: []string{"TIME", "ACTION", "STATUS", "CODE", "USER", "TENANT", "OBJECT", "SOURCE", "DETAIL"}, Empty: "No entries.",
		Drop: []string{"SOURCE", "CODE", "TENANT", "DETAIL", "OBJECT"}, Name: "OBJECT",
	}
	for _, e := range entries {
		status := e.GetStatus()
		if e.GetCount() > 1 {
			status += fmt.Sprintf(" ×%d", e.GetCount())
		}
		t.Add(e.GetTime().AsTime().Local().Format("2006-01-02 15:04:05"), e.GetAction(), status, e.GetCode(), e.GetUser(), e.GetTenantId(),
			e.GetObject(), strings.TrimSpace(e.GetDoor()+" "+e.GetSource()), e.GetDetail())
	}
	return t
}

func (a *commands) auditExportCommand() *cobra.Command {
	var f auditFlags
	var form string
	c := &cobra.Command{
		Use: "export", Short: "Export audit entries as JSON lines, oldest first", Args: command.ExactArgs(),
		Long: `Print entries of the server's audit log as JSON lines, oldest first. Each line has the hash of
the entry and the hash of the previous entry. If you may read the audit log of only some
tenants, the output has no hashes. The output then also hides the names of users who do not
belong to those tenants.

With --form short, a line has only timestamp, action, user, job_id (or object), cluster and
status. It has no hashes, so "ares audit verify" cannot check it.`,
		Example: `  ares audit export --since 30d > audit.jsonl
  ares audit export --form short --action SUBMIT_JOB`,
		RunE: a.WithClient(func(ctx context.Context, c *client.Client, _ []string) error {
			req, err := f.request(a.Now())
			if err != nil {
				return err
			}
			lineOf, err := lineIn(form)
			if err != nil {
				return err
			}
			req.PageSize, req.OldestFirst, req.OwnLog = 1000, true, true
			out := bufio.NewWriter(a.Out)
			err = c.AuditEntries(ctx, req, func(page *apipb.ListAuditEntriesResponse) (bool, error) {
				for _, m := range page.GetEntries() {
					line, lineErr := lineOf(m)
					if lineErr != nil {
						return false, lineErr
					}
					_, _ = out.Write(append(line, '\n')) // Flush returns the error
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
	c.Flags().StringVar(&form, "form", fullForm, "full, or short for timestamp, action, user, job_id, cluster and status")
	return c
}

// auditLine converts an audit entry to a line in the format of the audit log. Callers that can read
// only some tenants get audit entries without hashes, so they cannot verify these entries.
func auditLine(m *apipb.AuditEntry) ([]byte, error) {
	seq, err := strconv.ParseUint(m.GetSequence(), 10, 64)
	if err != nil {
		return nil, fmt.Errorf("the server sent an audit entry without a valid sequence number: %w", err)
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
		return nil, ares.Errorf(ares.Internal, "the hash of audit entry %d does not match its content: run \"ares audit verify\" with the server's version of ares", seq)
	}
	return line, err
}

func (a *commands) auditHeadsCommand() *cobra.Command {
	return &cobra.Command{
		Use: "heads", Short: "Print a signature of the last entry of the audit log", Args: command.ExactArgs(),
		Long: `Print a signature of the last entry of the server's audit log. Store the printed line on a
machine that the server cannot write to. Later, "ares audit verify --head FILE" detects whether
an earlier entry was changed or removed.`,
		Example: "  ares audit heads >> audit-heads.jsonl",
		RunE: a.WithClient(func(ctx context.Context, c *client.Client, _ []string) error {
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
			output.Printf(a.Out, "%s\n", line)
			return nil
		}),
	}
}

// auditHead parses one signed head from a file and verifies its signature.
func auditHead(m *apipb.AuditHead) (audit.Head, error) {
	number, err := strconv.ParseUint(m.GetN(), 10, 64)
	seq, badSeq := strconv.ParseUint(m.GetSeq(), 10, 64)
	at, badTime := time.Parse(time.RFC3339Nano, m.GetTime())
	h := audit.Head{
		Kind: audit.HeadKind(m.GetKind()), Number: number, Server: m.GetServer(), Sequence: seq, Hash: m.GetHash(), Time: at,
		Key: m.GetKey(), Signature: m.GetSignature(),
	}
	if err != nil || badSeq != nil || badTime != nil || h.Check() != nil {
		return h, ares.Errorf(ares.Internal, "the server sent an audit-log head with an invalid signature")
	}
	return h, nil
}
