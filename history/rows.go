package history

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// This type contains the rows that are to be inserted into one table.
type rows struct {
	table   string
	columns []string
	args    []any
}

func (r *rows) add(values ...any) {
	if len(values) != len(r.columns) {
		panic(fmt.Sprintf("history: %d values for %d columns of %s", len(values), len(r.columns), r.table))
	}
	r.args = append(r.args, values...)
}

// This constant is the number of rows that one SQL statement inserts. If fewer rows remain, they are
// inserted one by one. So each table needs only two prepared statements.
const together = 32

// The method `insert` writes the rows. The parameter `suffix` is the SQL clause that
// handles conflicts.
func (r *rows) insert(ctx context.Context, w *writer, suffix string) error {
	width := len(r.columns)
	for left := r.args; len(left) > 0; {
		n := 1
		if len(left) >= together*width {
			n = together
		}
		one := placeholders(width)
		query := "INSERT INTO " + r.table + " (" + strings.Join(r.columns, ", ") + ") VALUES " + strings.Repeat(one+", ", n-1) + one + " " + suffix
		if err := w.exec(ctx, query, left[:n*width]...); err != nil {
			return fmt.Errorf("insert into %s: %w", r.table, err)
		}
		left = left[n*width:]
	}
	return nil
}

// The method `write` inserts all rows of the batch and updates the usage sums.
func (b *batch) write(ctx context.Context, w *writer) error {
	for _, r := range []*rows{b.jobs, b.attempts, b.places, b.transitions, b.usages} {
		if err := r.insert(ctx, w, ""); err != nil {
			return err
		}
	}
	if err := b.writeSums(ctx, w); err != nil {
		return err
	}
	days := &rows{table: "accepted_days", columns: []string{"day", "first_revision", "last_revision"}}
	for _, day := range slices.Sorted(maps.Keys(b.days)) {
		days.add(day, b.days[day][0], b.days[day][1])
	}
	return days.insert(ctx, w, `ON CONFLICT (day) DO UPDATE SET
		first_revision = CASE WHEN excluded.first_revision < accepted_days.first_revision THEN excluded.first_revision ELSE accepted_days.first_revision END,
		last_revision = CASE WHEN excluded.last_revision > accepted_days.last_revision THEN excluded.last_revision ELSE accepted_days.last_revision END`)
}

// writeSums adds the usage of the jobs to the two tables that hold sums.
func (b *batch) writeSums(ctx context.Context, w *writer) error {
	kinds, err := w.kinds(ctx, b.groups)
	if err != nil {
		return err
	}
	daily := &rows{table: "usage_daily", columns: []string{"tenant", "day", "queue", "submitted_by", "model", "region", "kind", "gpu_milliseconds", "jobs"}}
	tenants := &rows{table: "usage_by_tenant", columns: []string{"tenant", "day", "kind", "gpu_milliseconds", "jobs"}}
	wide := map[group]sums{}
	for _, g := range sorted(b.groups) {
		s := b.groups[g]
		daily.add(g.tenant, g.day, g.queue, g.user, g.kind.Model, g.kind.Region, kinds[g.kind], s.ms, s.jobs)
		all := group{tenant: g.tenant, day: g.day, kind: g.kind}
		was := wide[all]
		wide[all] = sums{was.ms + s.ms, was.jobs + s.jobs}
	}
	for _, g := range sorted(wide) {
		tenants.add(g.tenant, g.day, kinds[g.kind], wide[g].ms, wide[g].jobs)
	}
	const more = " DO UPDATE SET gpu_milliseconds = %[1]s.gpu_milliseconds + excluded.gpu_milliseconds, jobs = %[1]s.jobs + excluded.jobs"
	if err = daily.insert(ctx, w, "ON CONFLICT (tenant, day, queue, submitted_by, model, region)"+fmt.Sprintf(more, daily.table)); err != nil {
		return err
	}
	return tenants.insert(ctx, w, "ON CONFLICT (tenant, day, kind)"+fmt.Sprintf(more, tenants.table))
}

// This method returns the numeric ID of each kind of device, and adds new kinds to the database.
func (w *writer) kinds(ctx context.Context, groups map[group]sums) (map[Kind]int, error) {
	known, last := map[Kind]int{}, 0
	err := w.query(ctx, "SELECT kind, model, region FROM kinds", nil, func(r *sql.Rows) error {
		n, k := 0, Kind{}
		if err := r.Scan(&n, &k.Model, &k.Region); err != nil {
			return err
		}
		known[k], last = n, max(last, n)
		return nil
	})
	if err != nil {
		return nil, err
	}
	added := &rows{table: "kinds", columns: []string{"kind", "model", "region"}}
	for _, g := range sorted(groups) {
		if _, there := known[g.kind]; !there {
			last++
			known[g.kind] = last
			added.add(last, g.kind.Model, g.kind.Region)
		}
	}
	return known, added.insert(ctx, w, "")
}

// This function returns the keys in the order of the table, because rows are written faster in that
// order.
func sorted(m map[group]sums) []group {
	return slices.SortedFunc(maps.Keys(m), func(a, b group) int {
		return cmp.Or(strings.Compare(a.tenant, b.tenant), strings.Compare(a.day, b.day), strings.Compare(a.queue, b.queue),
			strings.Compare(a.user, b.user), strings.Compare(a.kind.Model, b.kind.Model), strings.Compare(a.kind.Region, b.kind.Region))
	})
}
