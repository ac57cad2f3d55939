package admin

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/cli/command"
	"github.com/ares-scheduler/ares/cli/exit"
	"github.com/ares-scheduler/ares/cli/output"
	"github.com/ares-scheduler/ares/client"
)

func (a *commands) reservationCommand() *cobra.Command {
	return command.Group("reservation", "Manage reservations of nodes for a tenant or for maintenance", "  ares reservation list",
		`A reservation keeps nodes for a tenant, or free for maintenance, for some time. While it is active,
only jobs of its tenant are placed on its nodes, and no jobs if it has no tenant. Before it starts,
Ares places other jobs on its nodes only if it expects them to end before the start. A job's expected
end comes from the runtime of similar jobs or from max_runtime_minutes. If a job's runtime is
unknown, Ares assumes 24 hours.`,
		a.reservationCreateCommand(), a.reservationListCommand(), a.reservationGetCommand(), a.reservationDeleteCommand())
}

// ReservationFlags are the flags that set fields of a reservation.
type ReservationFlags struct {
	file         string
	tenant       string
	queue        string
	From         string
	Until        string
	Lasts        string
	nodes        []string
	selector     []string
	domain       string
	drain, force bool
	why          string
}

func (r *ReservationFlags) add(f *pflag.FlagSet) {
	f.SortFlags = false
	f.StringVarP(&r.file, "file", "f", "", "file with the reservation, YAML or JSON; - for standard input")
	f.StringVar(&r.From, "from", "", "start: 22:00 (the next one), 2026-01-31T22:00 or +2h (default now)")
	f.StringVar(&r.Until, "until", "", "end, in the same formats")
	f.StringVar(&r.Lasts, "for", "", "duration instead of --until: 90m, 4h, 2d")
	f.StringSliceVar(&r.nodes, "nodes", nil, "nodes, by name")
	f.StringArrayVar(&r.selector, "selector", nil, "nodes with a label, KEY=VALUE; may be repeated, all must match")
	f.StringVar(&r.domain, "domain", "", "nodes in a topology domain, such as leaf/l1, rack/r1 or zone/a; with --selector both must match")
	command.TenantFlag(f, &r.tenant, "tenant whose jobs may use the nodes (default none: maintenance)")
	f.StringVar(&r.queue, "queue", "", "only jobs of this queue of the tenant")
	f.BoolVar(&r.drain, "drain", false, "when the reservation starts, move other jobs off its nodes (by default they run to their end)")
	f.BoolVar(&r.force, "force", false, "with --drain: also stop at_most_once jobs; they end as lost")
	f.StringVar(&r.why, "why", "", "reason that other users see")
}

// The method `reservation` builds the reservation that the file and the flags
// describe.
func (r *ReservationFlags) reservation(a *commands, f *pflag.FlagSet, name string) (*apipb.Reservation, error) {
	out := &apipb.Reservation{}
	if r.file != "" {
		if err := a.ReadMessage(r.file, out); err != nil {
			return nil, err
		}
	}
	if name != "" {
		out.Name = name
	}
	for flag, to := range map[string]struct {
		field *string
		value string
	}{
		"tenant-id": {&out.TenantId, r.tenant}, "queue": {&out.Queue, r.queue}, "domain": {&out.Domain, r.domain}, "why": {&out.Why, r.why},
	} {
		if f.Changed(flag) {
			*to.field = to.value
		}
	}
	if f.Changed("drain") {
		out.Drain = r.drain
	}
	if f.Changed("force") {
		out.Force = r.force
	}
	if len(r.nodes) > 0 {
		out.Nodes = r.nodes
	}
	for _, text := range r.selector {
		key, value, ok := strings.Cut(text, "=")
		if !ok || key == "" {
			return nil, exit.Usagef("--selector %q: use KEY=VALUE, such as pool=fast", text)
		}
		if out.NodeSelector == nil {
			out.NodeSelector = map[string]string{}
		}
		out.NodeSelector[key] = value
	}
	return out, r.Times(out, a.Now())
}

// Times parses the flags for the start and the end of a reservation.
func (r *ReservationFlags) Times(out *apipb.Reservation, now time.Time) error {
	if r.Until != "" && r.Lasts != "" {
		return exit.Usagef("use --until or --for, not both")
	}
	from := now
	if out.GetFrom() != nil {
		from = out.GetFrom().AsTime()
	}
	if r.From != "" {
		t, err := command.ReadTime("from", r.From, now, now)
		if err != nil {
			return err
		}
		from, out.From = t, timestamppb.New(t)
	}
	switch {
	case r.Until != "":
		t, err := command.ReadTime("until", r.Until, from, now)
		if err != nil {
			return err
		}
		out.Until = timestamppb.New(t)
	case r.Lasts != "":
		d, err := command.ReadDuration("for", r.Lasts)
		if err != nil {
			return err
		}
		out.Until = timestamppb.New(from.Add(d))
	case out.GetUntil() == nil:
		return exit.Usagef("the end is missing: use --for 4h or --until 02:00")
	}
	return nil
}

func (a *commands) reservationCreateCommand() *cobra.Command {
	var r ReservationFlags
	var o output.Flags
	c := &cobra.Command{
		Use: "create [NAME]", Short: "Reserve nodes for a period",
		Example: "  ares reservation create new-disks --from 22:00 --for 4h --nodes gpu-1 --drain --why 'disk swap'\n" +
			"  ares reservation create night-run --tenant-id vision --from +4d --for 12h --selector pool=h100\n" +
			"  ares reservation create rack-move --from +2d --for 6h --domain rack/r1 --drain",
		Args: command.MaxOneArg,
	}
	c.RunE = a.WithClient(func(ctx context.Context, cl *client.Client, args []string) error {
		name := ""
		if len(args) == 1 {
			name = args[0]
		} else if r.file == "" {
			return exit.Usagef("NAME is missing: ares reservation create new-disks --from 22:00 --for 4h --nodes gpu-7")
		}
		ask, err := r.reservation(a, c.Flags(), name)
		if err != nil {
			return err
		}
		made, err := cl.CreateReservation(ctx, ask)
		if err != nil {
			return err
		}
		return a.Print(&o, made, func(w io.Writer, _ proto.Message) {
			output.Printf(w, "%s %s: %s %s from %s until %s\n", output.Clean(made.GetName()), output.Clean(made.GetState()), output.Count(made.GetNodeCount(), "node"),
				output.Clean(purpose(made)), localTime(made.GetFrom()), localTime(made.GetUntil()))
			for _, warning := range made.GetWarnings() {
				output.Printf(a.Err, "ares: warning: %s\n", output.Clean(warning))
			}
		})
	})
	r.add(c.Flags())
	o.AddOutput(c)
	return c
}

// The function `purpose` returns the tenant or queue that a reservation is for,
// or "maintenance".
func purpose(m *apipb.Reservation) string {
	return (&ares.Reservation{Tenant: m.GetTenantId(), Queue: m.GetQueue()}).For().String()
}

// localTime prints a time in the local zone.
func localTime(t *timestamppb.Timestamp) string {
	if t == nil {
		return "-"
	}
	return t.AsTime().Local().Format("2006-01-02 15:04 MST")
}

func (a *commands) reservationListCommand() *cobra.Command {
	var o output.Flags
	return o.AddList(&cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List reservations with the jobs that run on their nodes", Example: "  ares reservation list", Args: command.ExactArgs(),
		RunE: a.WithClient(func(ctx context.Context, c *client.Client, _ []string) error {
			return a.List(ctx, &o, func(ctx context.Context) (proto.Message, error) { return c.Reservations(ctx) },
				func(m proto.Message) *output.Table { return a.reservationTable(m.(*apipb.ListReservationsResponse)) })
		}),
	})
}

func (a *commands) reservationTable(list *apipb.ListReservationsResponse) *output.Table {
	t := &output.Table{Head: []string{"RESERVATION", "STATE", "FOR", "FROM", "UNTIL", "NODES", "OTHERS' JOBS", "DRAIN", "WHY"}, Empty: "No reservations. Create one with \"ares reservation create\".",
		Drop: []string{"DRAIN", "OTHERS' JOBS", "NODES", "WHY", "FROM", "FOR"}}
	for _, r := range list.GetReservations() {
		t.Add(r.GetName(), r.GetState(), strings.TrimPrefix(purpose(r), "for "), localTime(r.GetFrom()), localTime(r.GetUntil()),
			strconv.Itoa(int(r.GetNodeCount())), othersJobs(r), drainWord(r), r.GetWhy())
	}
	return t
}

// othersJobs counts the jobs that run on a reservation's nodes but are not entitled to them.
func othersJobs(r *apipb.Reservation) string {
	text := strconv.Itoa(int(r.GetJobCount()))
	if n := len(r.GetLeftRunning()); n > 0 && r.GetDrain() && !r.GetForce() {
		text += fmt.Sprintf(" (%d at_most_once)", n)
	}
	return text
}

func drainWord(r *apipb.Reservation) string {
	switch {
	case r.GetForce():
		return "force"
	case r.GetDrain():
		return "yes"
	}
	return "no"
}

func (a *commands) reservationGetCommand() *cobra.Command {
	var o output.Flags
	return o.Add(&cobra.Command{
		Use: "get NAME", Short: "Show one reservation with its nodes and running jobs", Example: "  ares reservation get new-disks", Args: command.ExactArgs("NAME"),
		RunE: a.WithClient(func(ctx context.Context, c *client.Client, args []string) error {
			return a.Show(ctx, &o, func(ctx context.Context) (proto.Message, error) { return c.Reservation(ctx, args[0]) },
				func(w io.Writer, m proto.Message) { a.writeReservation(w, m.(*apipb.Reservation)) })
		}),
	})
}

func (a *commands) writeReservation(w io.Writer, r *apipb.Reservation) {
	s := output.NewSheet(w)
	s.Line("Reservation", r.GetName())
	s.Line("State", r.GetState())
	s.Line("For", strings.TrimPrefix(purpose(r), "for "))
	s.Line("From", localTime(r.GetFrom()))
	s.Line("Until", localTime(r.GetUntil()))
	s.Line("Why", r.GetWhy())
	s.Line("Asked for", nodeSelection(r))
	s.List("Nodes", r.GetReservedNodes())
	s.Line("Drain", drainWord(r))
	jobs := r.GetJobs()
	if more := int(r.GetJobCount()) - len(jobs); more > 0 {
		jobs = append(slices.Clip(jobs), fmt.Sprintf("and %d more", more))
	}
	s.List("Others' jobs", jobs)
	if r.GetDrain() && !r.GetForce() {
		s.List("Left running", r.GetLeftRunning())
	}
	s.List("Warnings", r.GetWarnings())
	s.Line("Created by", r.GetCreatedBy())
	s.Line("Created", a.When(r.GetCreatedAt()))
}

// nodeSelection describes how a reservation selects its nodes.
func nodeSelection(r *apipb.Reservation) string {
	var parts []string
	if len(r.GetNodes()) > 0 {
		parts = append(parts, strings.Join(r.GetNodes(), ", "))
	}
	var chosen []string
	if len(r.GetNodeSelector()) > 0 {
		chosen = append(chosen, "nodes with "+output.Pairs(r.GetNodeSelector()))
	}
	if r.GetDomain() != "" {
		chosen = append(chosen, "nodes in "+r.GetDomain())
	}
	if len(chosen) > 0 {
		parts = append(parts, strings.Replace(strings.Join(chosen, " "), " nodes in ", " that are in ", 1))
	}
	return strings.Join(parts, ", and ")
}

func (a *commands) reservationDeleteCommand() *cobra.Command {
	return &cobra.Command{
		Use: "delete NAME", Short: "Delete a reservation; an active reservation ends at once", Example: "  ares reservation delete new-disks", Args: command.ExactArgs("NAME"),
		RunE: a.WithClient(func(ctx context.Context, c *client.Client, args []string) error {
			if err := c.DeleteReservation(ctx, args[0]); err != nil {
				return err
			}
			output.Printf(a.Out, "%s deleted\n", output.Clean(args[0]))
			return nil
		}),
	}
}

// reservationText lists the reservations that include a node.
func reservationText(list []*apipb.Reservation) []string {
	var out []string
	for _, r := range list {
		out = append(out, fmt.Sprintf("%s %s from %s until %s (%s)", r.GetState(), purpose(r), localTime(r.GetFrom()), localTime(r.GetUntil()), r.GetName()))
	}
	return out
}
