package laws

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine"
	"github.com/ares-scheduler/ares/engine/config"
)

// A ledger holds the current and past usage of tenants and queues. The accounts form a tree. Tenants are at the
// top and queues below them. Each queue has an account for the jobs that were submitted to it directly.
type ledger struct {
	cfg           config.Config
	now           time.Time
	nodes         map[string]*nodeUse
	accounts      map[string]*account // by tenant, tenant/queue and tenant/queue/
	children      map[*account][]*account
	capacity      amount             // of all connected nodes
	gpuSeconds    map[string]float64 // GPU-seconds of this month by tenant
	roundingError map[string]float64 // upper bound on the rounding error of gpuSeconds
}

// An account holds the usage and the limits of a tenant, of a queue, or of the jobs submitted directly to one
// queue. Invariant: minWeight <= maxWeight. The two differ if the weight depends on past usage.
type account struct {
	name      string
	parent    *account
	minWeight float64
	maxWeight float64
	limits    *ares.Limits
	quotas    []ares.Quota
	current   amount
	pastUse   [3]float64 // average past use by resource
}

// The type `amount` holds resources in three forms: as counted for limits, as counted for shares, and by device model.
type amount struct {
	use          ares.Use
	resources    [3]float64     // weighted thousandths of GPUs, cores, MB
	milliByModel map[string]int // thousandths of devices
}

// newLedger makes the accounts of all tenants and queues.
func newLedger(s *engine.State, tenants map[string]*ares.Tenant, nodes map[string]*nodeUse, now time.Time) ledger {
	b := ledger{
		cfg: s.Config(), now: now, nodes: nodes, accounts: map[string]*account{}, children: map[*account][]*account{},
		gpuSeconds: map[string]float64{}, roundingError: map[string]float64{},
	}
	for id, r := range tenants { // order-free: entries are independent
		a := b.account(id, nil)
		a.setWeight(r.Weight)
		a.limits, a.quotas = &r.Limits, r.Quotas
		if r.WeightMax > 0 && b.cfg.HalfLife > 0 {
			a.minWeight, a.maxWeight = weightOf(r.WeightMin), weightOf(r.WeightMax)
		}
	}
	records := map[string]*ares.Queue{}
	for q := range s.Queues() {
		records[q.ID()] = q
	}
	for q := range s.Queues() {
		a := b.account(q.ID(), b.parentOf(records, q))
		a.setWeight(q.Weight)
		a.limits, a.quotas = &q.Limits, q.Quotas
	}
	for _, m := range nodes { // order-free: a sum
		if m.Session == nil {
			continue
		}
		for _, d := range m.Node.Devices {
			b.capacity.resources[0] += b.modelWeight(d.Model)
		}
		b.capacity.resources[1] += float64(m.Node.CPUs)
		b.capacity.resources[2] += float64(m.Node.MemoryMB)
	}
	return b
}

// setWeight sets a fixed weight.
func (a *account) setWeight(w float64) {
	a.minWeight, a.maxWeight = weightOf(w), weightOf(w)
}

// weightOf returns a weight, rounded to thousandths. A weight of 0 counts as 1.
func weightOf(w float64) float64 {
	if w == 0 {
		return 1
	}
	return max(math.Round(w*1000), 1) / 1000
}

// The method `account` returns the account with this name, and creates it with weight 1 if needed.
func (b *ledger) account(name string, parent *account) *account {
	a := b.accounts[name]
	if a == nil {
		a = &account{name: name, parent: parent, minWeight: 1, maxWeight: 1}
		a.current.milliByModel = map[string]int{}
		b.accounts[name] = a
		if parent != nil {
			b.children[parent] = append(b.children[parent], a)
		}
	}
	return a
}

// parentOf returns the account above a queue: its parent queue or its tenant. If the parents form a cycle, the queue is
// directly below the tenant.
func (b *ledger) parentOf(records map[string]*ares.Queue, q *ares.Queue) *account {
	top := b.account(q.Tenant, nil)
	if q.Parent == "" {
		return top
	}
	for at, seen := q.Parent, map[string]bool{}; at != "" && !seen[at]; {
		if at == q.Name {
			return top
		}
		seen[at] = true
		up := records[ares.QueueID(q.Tenant, at)]
		if up == nil {
			break
		}
		at = up.Parent
	}
	up := records[ares.QueueID(q.Tenant, q.Parent)]
	if up == nil {
		return b.account(ares.QueueID(q.Tenant, q.Parent), top)
	}
	if a := b.accounts[up.ID()]; a != nil {
		return a
	}
	return b.account(up.ID(), b.parentOf(records, up))
}

// accountOf returns the account of the jobs submitted directly to this job's queue.
func (b *ledger) accountOf(job *ares.Job) *account { return b.accountOfQueue(job.Tenant, job.Queue) }

// accountOfQueue returns the account of the jobs submitted directly to a queue.
func (b *ledger) accountOfQueue(tenant, queue string) *account {
	id := ares.QueueID(tenant, cmp.Or(queue, ares.DefaultQueue))
	if a := b.accounts[id+"/"]; a != nil {
		return a
	}
	return b.account(id+"/", b.account(id, b.account(tenant, nil)))
}

// The method `add` adds an amount to the account and to all accounts above it.
func (a *account) add(by amount) {
	for ; a != nil; a = a.parent {
		a.current.use = a.current.use.Add(by.use)
		for r := range by.resources {
			a.current.resources[r] += by.resources[r]
		}
		for model, milli := range by.milliByModel { // order-free: sums
			a.current.milliByModel[model] += milli
		}
	}
}

// modelWeight returns the weight with which a device counts in fair shares, in thousandths. The result is the weight of
// the longest configured name that is part of the device's model name.
func (b *ledger) modelWeight(model string) float64 {
	best, worth := "", 1000
	for name, w := range b.cfg.ModelWeights { // order-free: finds the longest name, then the first
		if strings.Contains(strings.ToLower(model), strings.ToLower(name)) && (len(name) > len(best) || len(name) == len(best) && name < best) {
			best, worth = name, w
		}
	}
	return float64(worth)
}

// amountOf returns the amount of one seat of a job.
func (b *ledger) amountOf(job *ares.Job, seat *ares.Seat) amount {
	out := amount{use: ares.Use{CPUs: seat.CPUs, CPUMilli: seat.CPUMilli, MemoryMB: seat.Memory, GPUMemoryMB: job.GPUMemoryMB}, milliByModel: map[string]int{}}
	out.resources = [3]float64{0, float64(ares.RoundUpCPUs(seat.MilliCPUs())), float64(seat.Memory)}
	for _, sh := range seat.Shares {
		model := ""
		if m := b.nodes[seat.Node]; m != nil {
			if d := m.device(sh.Device); d != nil {
				model = strings.ToLower(d.Model)
			}
		}
		out.use.GPUMilli += sh.Milli
		out.milliByModel[model] += sh.Milli
		out.resources[0] += float64(sh.Milli) * b.modelWeight(model) / 1000
	}
	return out
}

// addPastUse adds the usage of a seat until now to the budget. It also adds this usage, with exponential decay,
// to the past usage.
func (b *ledger) addPastUse(job *ares.Job, seat *ares.Seat, from, to time.Time) {
	if from.IsZero() {
		return
	}
	if to.IsZero() || to.After(b.now) {
		to = b.now
	}
	if !from.Before(to) {
		return
	}
	had := b.amountOf(job, seat)
	grown := b.decay(to) - b.decay(from)
	for a := b.accountOf(job); a != nil; a = a.parent {
		for r := range a.pastUse {
			a.pastUse[r] += had.resources[r] * grown
		}
	}
	begin := time.Date(b.now.UTC().Year(), b.now.UTC().Month(), 1, 0, 0, 0, 0, time.UTC)
	if from.Before(begin) {
		from = begin
	}
	if from.Before(to) {
		gpus := float64(had.use.GPUMilli) / 1000
		b.gpuSeconds[job.Tenant] += gpus * to.Sub(from).Seconds()
		b.roundingError[job.Tenant] += gpus + 1 // each interval is counted in whole seconds
	}
}

// The function `decay` returns the weight of past usage, which depends on its age. Usage that is one half-life old
// counts half.
func (b *ledger) decay(at time.Time) float64 {
	if b.cfg.HalfLife <= 0 {
		return 0
	}
	return math.Exp2(at.Sub(b.now).Hours() / b.cfg.HalfLife.Hours())
}

// addArchivedUse adds the usage of archived jobs.
func (b *ledger) addArchivedUse(s *engine.State) {
	month := b.now.UTC().Format(ares.MonthForm)
	for u := range s.Usages() {
		if u.Month == month {
			b.gpuSeconds[u.Tenant] += float64(u.GPUSecs)
		}
		if b.cfg.HalfLife <= 0 {
			continue
		}
		average := math.Ln2 / b.cfg.HalfLife.Seconds() * b.decay(u.At)
		for a := b.accountOfQueue(u.Tenant, u.Queue); a != nil; a = a.parent {
			for r, secs := range [3]int64{u.GPUMilliSecs, u.CPUSecs, u.MemoryGBSecs * 1024} {
				a.pastUse[r] += float64(secs) * average
			}
		}
	}
}

// checkLimits checks the hard limits of the job's queue, its parents and its
// tenant.
func checkLimits(t *checker, p *placement) error {
	if t.tenants[p.job.Tenant] == nil {
		return fmt.Errorf("the job's tenant %s does not exist", p.job.Tenant)
	}
	for a := t.ledger.accountOf(p.job); a != nil; a = a.parent {
		if a.limits == nil {
			continue
		}
		if what, used, limit, over := a.limits.Excess(a.current.use); over {
			return fmt.Errorf("%s would use %d %s, but its limit is %d", a.name, used, what, limit)
		}
	}
	return nil
}

// checkBudget compares the GPU-hours that the tenant has used this month with its budget.
func checkBudget(t *checker, p *placement) error {
	r := t.tenants[p.job.Tenant]
	if r == nil {
		return nil
	}
	lent, limited := r.LentSeconds(t.ledger.now.UTC().Format(ares.MonthForm))
	if spent := t.ledger.gpuSeconds[r.ID]; limited && (p.job.GPUs > 0 || p.job.GPUMilli > 0) && spent-t.ledger.roundingError[r.ID] >= float64(lent) {
		return fmt.Errorf("tenant %s has used up the GPU-hours that the hub lends it: it has used %.2f of %.2f", r.ID, spent/3600, float64(lent)/3600)
	}
	if r.GPUHours == 0 {
		return nil
	}
	if spent := t.ledger.gpuSeconds[r.ID]; spent-t.ledger.roundingError[r.ID] >= float64(r.GPUHours)*3600 {
		return fmt.Errorf("tenant %s has used up its monthly budget: it has used %.2f of %d GPU-hours", r.ID, spent/3600, r.GPUHours)
	}
	return nil
}

// quotaKey identifies a quota. If the account is nil, the key stands for all topmost quotas together.
type quotaKey struct {
	account *account
	model   string // the quota's pattern
}

// quotaPatterns returns the model patterns of all quotas in lower case.
func (b *ledger) quotaPatterns() []string {
	var out []string
	for _, a := range b.accounts { // order-free: sorted below
		for _, q := range a.quotas {
			out = append(out, strings.ToLower(q.Model))
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// The method `quota` returns the account's quota for a model pattern, or nil if it has none.
func (a *account) quota(pattern string) *ares.Quota {
	for i := range a.quotas {
		if strings.ToLower(a.quotas[i].Model) == pattern {
			return &a.quotas[i]
		}
	}
	return nil
}

// quotaDemand returns the amount that counts against a quota of an account. If there are accounts below the account,
// the amount is the sum of the amounts that they add (see quotaClaim). Otherwise the amount is the account's own
// usage.
func (b *ledger) quotaDemand(a *account, pattern string) int64 {
	total := int64(0)
	for _, k := range b.children[a] {
		total += b.quotaClaim(k, pattern)
	}
	if len(b.children[a]) == 0 {
		for model, milli := range a.current.milliByModel { // order-free: a sum
			if strings.Contains(model, pattern) {
				total += int64(milli)
			}
		}
	}
	return total
}

// quotaClaim returns the amount that an account adds to the demand on its parent account's quota. The result is
// the larger of two amounts: the demand of the account, and the part of its quota that it does not lend.
func (b *ledger) quotaClaim(a *account, pattern string) int64 {
	d := b.quotaDemand(a, pattern)
	q := a.quota(pattern)
	if q == nil {
		return d
	}
	return max(d, 1000*int64(q.Nominal-min(q.Lend, q.Nominal)))
}

// totalQuota returns two amounts: the sum of all topmost quotas, and the amount that counts against this sum. The
// usage of an account counts only if this account or an account above it has a quota.
func (b *ledger) totalQuota(pattern string) (nominal, claimed int64) {
	var walk func(a *account)
	walk = func(a *account) {
		if q := a.quota(pattern); q != nil {
			nominal += 1000 * int64(q.Nominal)
			claimed += b.quotaClaim(a, pattern)
			return
		}
		for _, k := range b.children[a] {
			walk(k)
		}
	}
	for _, a := range b.accounts { // order-free: sums
		if a.parent == nil {
			walk(a)
		}
	}
	return nominal, claimed
}

// quotaDemands returns, for each quota that applies to a job, the amount that counts against the quota.
func (b *ledger) quotaDemands(job *ares.Job) map[quotaKey]int64 {
	out := map[quotaKey]int64{}
	for _, pattern := range b.quotaPatterns() {
		seen := false
		for a := b.accountOf(job); a != nil; a = a.parent {
			if a.quota(pattern) != nil {
				seen = true
				out[quotaKey{a, pattern}] = b.quotaDemand(a, pattern)
			}
		}
		if seen {
			_, out[quotaKey{nil, pattern}] = b.totalQuota(pattern)
		}
	}
	return out
}

// checkQuotas checks that no placement raises the demand above a quota. If a quota was
// lowered, earlier placements may exceed it.
func checkQuotas(t *checker, p *placement) error {
	for d, now := range t.ledger.quotaDemands(p.job) { // order-free: any violation is enough
		if now <= p.demandBefore[d] {
			continue
		}
		if d.account == nil {
			if nominal, _ := t.ledger.totalQuota(d.model); now > nominal {
				return fmt.Errorf("the quotas for model %q are exceeded: they add up to %d thousandths of a device, but the demand is %d thousandths of a device", d.model, nominal, now)
			}
			continue
		}
		q := d.account.quota(d.model)
		if most := 1000 * (int64(q.Nominal) + int64(q.Borrow)); q.Borrow < ares.Unlimited && now > most {
			return fmt.Errorf("the demand of %s for model %q is %d thousandths of a device, but its quota plus its borrowing limit is %d thousandths of a device", d.account.name, d.model, now, most)
		}
	}
	return nil
}
