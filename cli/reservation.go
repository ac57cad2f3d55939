package cli

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
	"github.com/ares-scheduler/ares/client"
)

func (a *app) reservationCommand() *cobra.Command {
	return group("reservation", "Set nodes aside for a time: for a tenant, or for maintenance",
		`While a reservation is open, only jobs of its tenant are placed on its nodes, and without
a tenant nobody's. Before it opens, others are placed there only if they are thought to
end by then: by what jobs like them took, or by their max_runtime_minutes. A job of
unknown length is taken to run for 24 hours.`,
		a.reservationCreateCommand(), a.reservationListCommand(), a.reservationGetCommand(), a.reservationDeleteCommand())
}

// reservationFlags are the fields of a reservation as people write them.
type reservationFlags struct {
	file         string
	tenant       string
	queue        string
	from         string
	until        string
	lasts        string
	nodes        []string
	selector     []string
	domain       string
	drain, force bool
	why          string
}

func (r *reservationFlags) add(f *pflag.FlagSet) {
	f.SortFlags = false
	f.StringVarP(&r.file, "file", "f", "", "file with the reservation, YAML or JSON; - for standard input")
	f.StringVar(&r.from, "from", "", "when it begins: 22:00 (the next time), 2026-01-31T22:00, +2h (default now)")
	f.StringVar(&r.until, "until", "", "when it ends, as --from")
	f.StringVar(&r.lasts, "for", "", "how long it lasts instead: 90m, 4h, 2d")
	f.StringSliceVar(&r.nodes, "nodes", nil, "which nodes, by name")
	f.StringArrayVar(&r.selector, "selector", nil, "or those with a label, KEY=VALUE; may be repeated, all must match")
	f.StringVar(&r.domain, "domain", "", "or those in a place, such as leaf/l1, rack/r1 or zone/a; with --selector both must match")
	tenantFlag(f, &r.tenant, "whose jobs may use them (default nobody's: maintenance)")
	f.StringVar(&r.queue, "queue", "", "only jobs of this queue of the tenant")
	f.BoolVar(&r.drain, "drain", false, "at its beginning, stop what runs there and is not entitled: it is placed elsewhere (default it runs to its end)")
	f.BoolVar(&r.force, "force", false, "with --drain: stop at_most_once jobs too; they end as lost")
	f.StringVar(&r.why, "why", "", "why, for others to read")
}

// reservation is what the flags and the file ask for.
func (r *reservationFlags) reservation(a *app, f *pflag.FlagSet, name string) (*apipb.Reservation, error) {
	out := &apipb.Reservation{}
	if r.file != "" {
		if err := a.readMessage(r.file, out); err != nil {
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
			return nil, usagef("--selector %q: write KEY=VALUE, such as pool=fast", text)
		}
		if out.NodeSelector == nil {
			out.NodeSelector = map[string]string{}
		}
		out.NodeSelector[key] = value
	}
	return out, r.times(out, a.now())
}

// times reads when it begins and ends.
func (r *reservationFlags) times(out *apipb.Reservation, now time.Time) error {
	if r.until != "" && r.lasts != "" {
		return usagef("give --until or --for, not both")
	}
	from := now
	if out.GetFrom() != nil {
		from = out.GetFrom().AsTime()
	}
	if r.from != "" {
		t, err := readMoment("from", r.from, now, now)
		if err != nil {
			return err
		}
		from, out.From = t, timestamppb.New(t)
	}
	switch {
	case r.until != "":
		t, err := readMoment("until", r.until, from, now)
		if err != nil {
			return err
		}
		out.Until = timestamppb.New(t)
	case r.lasts != "":
		d, err := readSpan("for", r.lasts)
		if err != nil {
			return err
		}
		out.Until = timestamppb.New(from.Add(d))
	case out.GetUntil() == nil:
		return usagef("say how long: --for 4h, or --until 02:00")
	}
	return nil
}

func (a *app) reservationCreateCommand() *cobra.Command {
	var r reservationFlags
	var o readFlags
	c := &cobra.Command{
		Use: "create [NAME]", Short: "Set nodes aside for a time",
		Example: "  ares reservation create new-disks --from 22:00 --for 4h --nodes gpu-7,gpu-8 --drain --why 'disk swap'\n" +
			"  ares reservation create night-run --tenant-id vision --from 2026-01-31T20:00 --until 08:00 --selector pool=h100\n" +
			"  ares reservation create rack-move --from +2d --for 6h --domain rack/r1 --drain",
		Args: atMostOne,
	}
	c.RunE = a.with(func(ctx context.Context, cl *client.Client, args []string) error {
		name := ""
		if len(args) == 1 {
			name = args[0]
		} else if r.file == "" {
			return usagef("name the reservation, such as: ares reservation create new-disks --from 22:00 --for 4h --nodes gpu-7")
		}
		ask, err := r.reservation(a, c.Flags(), name)
		if err != nil {
			return err
		}
		made, err := cl.CreateReservation(ctx, ask)
		if err != nil {
			return err
		}
		return a.print(&o, made, func(w io.Writer, _ proto.Message) {
			say(w, "%s %s: %s %s from %s until %s\n", clean(made.GetName()), clean(made.GetState()), count(made.GetNodeCount(), "node"),
				clean(purpose(made)), moment(made.GetFrom()), moment(made.GetUntil()))
			for _, warning := range made.GetWarnings() {
				say(a.err, "ares: warning: %s\n", clean(warning))
			}
		})
	})
	r.add(c.Flags())
	o.addOutput(c)
	return c
}

// purpose says whom a reservation is for.
func purpose(m *apipb.Reservation) string {
	return (&ares.Reservation{Tenant: m.GetTenantId(), Queue: m.GetQueue()}).For()
}

// moment is a time for people.
func moment(t *timestamppb.Timestamp) string {
	if t == nil {
		return "-"
	}
	return t.AsTime().Local().Format("2006-01-02 15:04 MST")
}

func (a *app) reservationListCommand() *cobra.Command {
	var o readFlags
	return o.add(&cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List reservations with what still runs there", Args: exactly(),
		RunE: a.with(func(ctx context.Context, c *client.Client, _ []string) error {
			return a.show(ctx, &o, func(ctx context.Context) (proto.Message, error) { return c.Reservations(ctx) },
				func(w io.Writer, m proto.Message) { a.writeReservations(w, m.(*apipb.ListReservationsResponse)) })
		}),
	})
}

func (a *app) writeReservations(w io.Writer, list *apipb.ListReservationsResponse) {
	if len(list.GetReservations()) == 0 {
		say(w, "No reservations. \"ares reservation create\" sets nodes aside for a time.\n")
		return
	}
	t := table{head: []string{"RESERVATION", "STATE", "FOR", "FROM", "UNTIL", "NODES", "OTHERS' JOBS", "DRAIN", "WHY"}}
	for _, r := range list.GetReservations() {
		t.add(r.GetName(), r.GetState(), strings.TrimPrefix(purpose(r), "for "), moment(r.GetFrom()), moment(r.GetUntil()),
			strconv.Itoa(int(r.GetNodeCount())), othersJobs(r), drainWord(r), r.GetWhy())
	}
	t.write(w, a.color)
}

// othersJobs counts who is there without being entitled.
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

func (a *app) reservationGetCommand() *cobra.Command {
	var o readFlags
	return o.add(&cobra.Command{
		Use: "get NAME", Short: "Show one reservation, its nodes and what still runs there", Args: exactly("NAME"),
		RunE: a.with(func(ctx context.Context, c *client.Client, args []string) error {
			return a.show(ctx, &o, func(ctx context.Context) (proto.Message, error) { return c.Reservation(ctx, args[0]) },
				func(w io.Writer, m proto.Message) { a.writeReservation(w, m.(*apipb.Reservation)) })
		}),
	})
}

func (a *app) writeReservation(w io.Writer, r *apipb.Reservation) {
	s := sheet{w}
	s.line("Reservation", r.GetName())
	s.line("State", r.GetState())
	s.line("For", strings.TrimPrefix(purpose(r), "for "))
	s.line("From", moment(r.GetFrom()))
	s.line("Until", moment(r.GetUntil()))
	s.line("Why", r.GetWhy())
	s.line("Asked for", whichNodes(r))
	s.list("Nodes", r.GetReservedNodes())
	s.line("Drain", drainWord(r))
	jobs := r.GetJobs()
	if more := int(r.GetJobCount()) - len(jobs); more > 0 {
		jobs = append(slices.Clip(jobs), fmt.Sprintf("and %d more", more))
	}
	s.list("Others' jobs", jobs)
	if r.GetDrain() && !r.GetForce() {
		s.list("Left running", r.GetLeftRunning())
	}
	s.list("Warnings", r.GetWarnings())
	s.line("Created by", r.GetCreatedBy())
	s.line("Created", a.when(r.GetCreatedAt()))
}

// whichNodes says how the nodes of a reservation are named.
func whichNodes(r *apipb.Reservation) string {
	var parts []string
	if len(r.GetNodes()) > 0 {
		parts = append(parts, strings.Join(r.GetNodes(), ", "))
	}
	var chosen []string
	if len(r.GetNodeSelector()) > 0 {
		chosen = append(chosen, "nodes with "+pairs(r.GetNodeSelector()))
	}
	if r.GetDomain() != "" {
		chosen = append(chosen, "nodes in "+r.GetDomain())
	}
	if len(chosen) > 0 {
		parts = append(parts, strings.Replace(strings.Join(chosen, " "), " nodes in ", " that are in ", 1))
	}
	return strings.Join(parts, ", and ")
}

func (a *app) reservationDeleteCommand() *cobra.Command {
	return &cobra.Command{
		Use: "delete NAME", Short: "End a reservation at once, or forget one that is over", Args: exactly("NAME"),
		RunE: a.with(func(ctx context.Context, c *client.Client, args []string) error {
			if err := c.DeleteReservation(ctx, args[0]); err != nil {
				return err
			}
			say(a.out, "%s deleted\n", clean(args[0]))
			return nil
		}),
	}
}

// reservationWords says of a node what it is reserved for.
func reservationWords(list []*apipb.Reservation) []string {
	var out []string
	for _, r := range list {
		out = append(out, fmt.Sprintf("%s %s from %s until %s (%s)", r.GetState(), purpose(r), moment(r.GetFrom()), moment(r.GetUntil()), r.GetName()))
	}
	return out
}
