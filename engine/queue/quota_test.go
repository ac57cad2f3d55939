package queue

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	ares "github.com/ares-scheduler/ares"
)

func gpuAllocation(model int, gpus int64) Allocation {
	return Allocation{ForQuotas: []GPUAmount{{model, gpus * 1000}}}
}

func quotas(model string, nominal, borrow, lend int) []ares.Quota {
	return []ares.Quota{{Model: model, Nominal: nominal, Borrow: borrow, Lend: lend}}
}

// TestHeadroom allocates GPUs step by step and checks the headroom after each step. Two tenants have quotas, and one
// of them has queues.
func TestHeadroom(t *testing.T) {
	t.Parallel()
	tree := New[int](DefaultConfig())
	h100 := tree.ModelIndex("NVIDIA H100 80GB HBM3")
	l40 := tree.ModelIndex("NVIDIA L40S")
	tree.SetTenant("a", &ares.Tenant{ID: "a", Limits: ares.NoLimits(), Quotas: quotas("H100", 16, 8, 4)})
	tree.SetTenant("b", &ares.Tenant{ID: "b", Limits: ares.NoLimits(), Quotas: quotas("h100", 8, ares.Unlimited, ares.Unlimited)})
	tree.SetQueue(&ares.Queue{Tenant: "a", Name: "kept", Limits: ares.NoLimits(), Quotas: quotas("h100", 6, 0, 0)})
	for _, step := range []struct {
		say    string
		tenant string
		queue  string
		add    int64
		want   string // headroom of a/kept, a/free, b, c
	}{
		{"idle", "a", "kept", 0, "6 18 12 -"},      // a may use 24, of which 6 are guaranteed to queue kept; the pool is 24, of which 12 are guaranteed to a
		{"a/free 10", "a", "free", 10, "6 8 8 -"},  // a has 16 of the pool of 24 used or guaranteed
		{"b borrows", "b", "", 4, "6 4 4 -"},       // 20 of the pool of 24 are used or guaranteed
		{"b uses the rest", "b", "", 4, "6 0 0 -"}, // only the guaranteed quota of queue kept is left
		{"kept uses its own", "a", "kept", 6, "0 0 0 -"},
		{"c has no quota", "c", "", 100, "0 0 0 -"}, // no quota bounds c
		{"b releases", "b", "", -8, "0 8 8 -"},
	} {
		tree.Leaf(step.tenant, step.queue).Charge(gpuAllocation(h100, step.add), 1)
		var got []string
		for _, l := range []*LeafQueue[int]{tree.Leaf("a", "kept"), tree.Leaf("a", "free"), tree.Leaf("b", ""), tree.Leaf("c", "")} {
			room, _ := l.Headroom(h100)
			if !IsBounded(room) {
				got = append(got, "-")
				continue
			}
			got = append(got, formatGPUs(room))
		}
		if s := strings.Join(got, " "); s != step.want {
			t.Errorf("%s: room %s, want %s", step.say, s, step.want)
		}
	}
	if room, _ := tree.Leaf("a", "kept").Headroom(l40); IsBounded(room) {
		t.Errorf("another model is bounded by %d", room)
	}
}

// TestBounds checks the descriptions of limits and quotas that forbid an allocation.
func TestBounds(t *testing.T) {
	t.Parallel()
	tree := New[int](DefaultConfig())
	h100 := tree.ModelIndex("H100")
	tree.SetTenant("a", &ares.Tenant{ID: "a", Limits: ares.NoLimits(), Quotas: quotas("", 16, 0, 0)})
	limits := ares.NoLimits()
	limits.ConcurrentJobs, limits.GPUs = 2, 3
	tree.SetQueue(&ares.Queue{Tenant: "a", Name: "q", Limits: limits})
	tree.SetTenant("b", &ares.Tenant{ID: "b", Limits: ares.NoLimits(), Quotas: quotas("", 4, ares.Unlimited, 0)})
	held := func(n int) Allocation {
		return Allocation{ForLimits: ares.Use{GPUs: n, Jobs: 1}, ForQuotas: []GPUAmount{{h100, int64(n) * 1000}}}
	}
	tree.Leaf("a", "q").Charge(held(2), 1)
	tree.Leaf("a", "r").Charge(held(14), 1)
	for _, c := range []struct {
		tenant, queue string
		grant         Allocation
		want          string
	}{
		{"a", "q", held(2), "[queue a/q limit: GPUs 2 of 3 used, 2 requested tenant a quota: 16 of 16 GPUs used, 2 requested]"},
		{"a", "r", Allocation{ForQuotas: []GPUAmount{{h100, 250}}}, "[tenant a quota: 16 of 16 GPUs used, 0.25 requested]"},
		{"b", "", held(5), "[all quotas together: 20 of 20 GPUs used or guaranteed, 5 requested]"},
		{"b", "", held(4), "[]"},
		{"c", "", held(500), "[]"},
	} {
		var texts []string
		for _, b := range tree.Leaf(c.tenant, c.queue).CheckAdmission(c.grant) {
			texts = append(texts, b.Text().String())
		}
		if got := fmt.Sprint(texts); got != c.want {
			t.Errorf("%s/%s: %s\nwant %s", c.tenant, c.queue, got, c.want)
		}
	}
}

// quotaUser is a leaf queue together with the amounts that a test has allocated to it.
type quotaUser struct {
	leaf *LeafQueue[int]
	held []int64 // by model
}

// drawQuotaTree returns a random tree of quotas and the tree's leaf queues. It also returns a function that sets the
// same records in another tree in random order.
func drawQuotaTree(t *rapid.T, models []string) (*Tree[int], []*quotaUser, func(fresh *Tree[int])) {
	tree := New[int](DefaultConfig())
	limit := func(what string) int { return rapid.SampledFrom([]int{0, 1, 4, ares.Unlimited}).Draw(t, what) }
	draw := func() []ares.Quota {
		var out []ares.Quota
		for _, model := range []string{"", "h100", "l4"} {
			if rapid.IntRange(0, 2).Draw(t, "has") > 0 {
				out = append(out, ares.Quota{Model: model, Nominal: rapid.IntRange(0, 12).Draw(t, "nominal"), Borrow: limit("borrow"), Lend: limit("lend")})
			}
		}
		return out
	}
	var records []func(*Tree[int])
	var holders []*quotaUser
	for _, tenant := range []string{"a", "b", "c"} {
		record := &ares.Tenant{ID: tenant, Limits: ares.NoLimits(), Quotas: draw()}
		records = append(records, func(t *Tree[int]) { t.SetTenant(tenant, record) })
		for _, q := range []string{"p", "q", "r"} {
			parent := map[string]string{"q": "p", "r": "q"}[q]
			record := &ares.Queue{Tenant: tenant, Name: q, Parent: parent, Limits: ares.NoLimits(), Quotas: draw()}
			records = append(records, func(t *Tree[int]) { t.SetQueue(record) })
			holders = append(holders, &quotaUser{leaf: tree.Leaf(tenant, q), held: make([]int64, len(models))})
		}
	}
	order := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "order"), 0)) //nolint:gosec // a shuffle
	shuffle := func(fresh *Tree[int]) {
		for _, m := range models {
			fresh.ModelIndex(m)
		}
		for _, i := range order.Perm(len(records)) {
			records[i](fresh)
		}
	}
	shuffle(tree)
	return tree, holders, shuffle
}

// TestQuotaLaws allocates and releases random amounts within the headroom. TestQuotaLaws checks that no usage exceeds
// the nominal quota plus the borrowing limit. Guaranteed quota must never be lent, and the total must never exceed
// the sum of the nominal quotas.
func TestQuotaLaws(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		models := []string{"H100 SXM", "L40S", "V100"}
		tree, holders, records := drawQuotaTree(t, models)
		for range rapid.IntRange(1, 60).Draw(t, "moves") {
			h := holders[rapid.IntRange(0, len(holders)-1).Draw(t, "who")]
			m := rapid.IntRange(0, len(models)-1).Draw(t, "model")
			if h.held[m] > 0 && rapid.IntRange(0, 2).Draw(t, "back") == 0 {
				back := rapid.Int64Range(1, h.held[m]).Draw(t, "much")
				h.leaf.Charge(Allocation{ForQuotas: []GPUAmount{{m, back}}}, -1)
				h.held[m] -= back
			} else {
				room, _ := h.leaf.Headroom(m)
				take := rapid.Int64Range(0, min(room, 5000)).Draw(t, "much")
				if blocks := h.leaf.CheckAdmission(Allocation{ForQuotas: []GPUAmount{{m, take}}}); len(blocks) > 0 {
					t.Fatalf("%d of %d are forbidden: %v", take, room, blocks)
				}
				if IsBounded(room) && len(h.leaf.CheckAdmission(Allocation{ForQuotas: []GPUAmount{{m, room + 1}}})) == 0 {
					t.Fatalf("more than the headroom of %d is allowed", room)
				}
				h.leaf.Charge(Allocation{ForQuotas: []GPUAmount{{m, take}}}, 1)
				h.held[m] += take
			}
			checkQuotas(t, tree, holders)
		}
		fresh := New[int](DefaultConfig())
		records(fresh)
		for _, h := range holders {
			for m, milli := range h.held {
				fresh.Leaf(h.leaf.Tenant(), h.leaf.Name()).Charge(Allocation{ForQuotas: []GPUAmount{{m, milli}}}, 1)
			}
		}
		fresh.rebuild()
		if !reflect.DeepEqual(tree.pools, fresh.pools) {
			t.Fatalf("pools %+v, fresh %+v", tree.pools, fresh.pools)
		}
	})
}

// checkQuotas computes all sums again from the allocations of the leaf queues.
func checkQuotas(t *rapid.T, tree *Tree[int], holders []*quotaUser) {
	tree.rebuild()
	for p, pattern := range tree.patterns {
		used := map[*node[int]]int64{}
		for _, h := range holders {
			for m, milli := range h.held {
				if strings.Contains(strings.ToLower(tree.models[m]), pattern) {
					for n := h.leaf.node; n != nil; n = n.parent {
						used[n] += milli
					}
				}
			}
		}
		promised, together := int64(0), int64(0)
		var visit func(n *node[int], top bool)
		visit = func(n *node[int], top bool) {
			if len(n.quotas) > 0 && n.quotas[p].isSet {
				a := n.quotas[p]
				if used[n] > a.max {
					t.Fatalf("%s/%s has %d of %q, at most %d", n.tenant, n.queue, used[n], pattern, a.max)
				}
				if top {
					promised, together = promised+a.nominal, together+max(used[n], a.guaranteed)
				}
				top = false
			}
			for _, k := range n.children {
				visit(k, top)
			}
		}
		visit(tree.root, true)
		if together > promised {
			t.Fatalf("%d of %q are used or guaranteed, nominal are %d", together, pattern, promised)
		}
	}
}
