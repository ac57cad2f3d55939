package plugin

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/ares-scheduler/ares/kube/planner"
	"github.com/ares-scheduler/ares/kube/watch"
)

func asUID(uid string) types.UID { return types.UID(uid) }

// Bind binds a pod to its node. The same write adds the planned devices to the pod's annotations. The leader of a gang
// is bound first and carries the plan of the whole gang. So if this process ends in between, the next leader finds where
// the other pods of the gang belong.
func (p *Plugin) Bind(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node string) *fwk.Status {
	uid := string(pod.UID)
	annotations := map[string]string{}
	if p.feed.usesGPUs(pod) {
		a, status := p.awaitLeader(ctx, state, uid, node)
		if status != nil {
			return status
		}
		annotations = p.annotations(&a)
		err := p.bind(ctx, pod, node, annotations)
		if a.Leader == uid {
			p.binds.finish(a.Fence, err)
		}
		return fwk.AsStatus(err)
	}
	return fwk.AsStatus(p.bind(ctx, pod, node, annotations))
}

// leaderCheck is how often a pod looks whether its gang's leader is bound after all. The answer to a binding may be lost.
const leaderCheck = 100 * time.Millisecond

// awaitLeader returns the plan of a pod when it may be bound: at once if it is its gang's leader, else when the leader is
// bound.
func (p *Plugin) awaitLeader(ctx context.Context, state fwk.CycleState, uid, node string) (planner.Assignment, *fwk.Status) {
	ctx, cancel := context.WithTimeout(ctx, gangWait)
	defer cancel()
	tick := time.NewTicker(leaderCheck)
	defer tick.Stop()
	for {
		a, planned := p.planner.Assignment(uid)
		if !planned || a.Node != node || !isCurrent(state, &a) {
			return a, fwk.NewStatus(fwk.Unschedulable, "its plan was withdrawn before it was bound")
		}
		if a.Leader == uid || a.LeaderBound {
			return a, nil
		}
		leader := p.binds.entry(a.Fence)
		select {
		case <-leader.done:
			if leader.err != nil {
				return a, fwk.AsStatus(fmt.Errorf("the first pod of its gang was not bound: %w", leader.err))
			}
			return a, nil
		case <-ctx.Done():
			return a, fwk.AsStatus(fmt.Errorf("the first pod of its gang was not bound: %w", ctx.Err()))
		case <-tick.C:
		}
	}
}

// bindings limits how many bindings are written at the same time. Without the limit, a large plan opens hundreds of
// connections to the API server, whose handshakes cost more than the bindings. An API server accepts 100 requests at the
// same time on one connection by default, so this number needs two. With fewer, the API server spends more of its time on
// the other clients, above all on the kubelets that report the first pods: with 64 the same pods took half as long again.
const bindings = 160

func (p *Plugin) bind(ctx context.Context, pod *v1.Pod, node string, annotations map[string]string) error {
	select {
	case p.binding <- struct{}{}:
		defer func() { <-p.binding }()
	case <-ctx.Done():
		return ctx.Err()
	}
	return p.handle.ClientSet().CoreV1().Pods(pod.Namespace).Bind(ctx, &v1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, Annotations: annotations},
		Target:     v1.ObjectReference{Kind: "Node", Name: node},
	}, metav1.CreateOptions{})
}

// annotations returns what a binding writes into the pod.
func (p *Plugin) annotations(a *planner.Assignment) map[string]string {
	devices := watch.FormatDevices(a.Devices)
	if ids := p.feed.table.ids(a.Node, a.Devices); len(ids) > 0 {
		devices = strings.Join(ids, ",")
	}
	for i := range a.Gang {
		if ids := p.feed.table.ids(a.Gang[i].Node, a.Gang[i].Devices); len(ids) > 0 {
			a.Gang[i].Devices, a.Gang[i].IDs = nil, ids
		}
	}
	out := map[string]string{
		watch.AnnotationDevices: devices,
		watch.AnnotationFence:   strconv.FormatInt(a.Fence, 10),
		watch.AnnotationScore:   strconv.Itoa(a.Score),
	}
	if a.Domain != "" {
		out[watch.AnnotationDomain] = a.Domain
	}
	if len(a.Gang) > 0 {
		if text, fits := watch.FormatGang(a.Gang); fits {
			out[watch.AnnotationGang] = text
		}
	}
	return out
}

// bindOrder lets the pods of a gang wait until their leader is bound.
type bindOrder struct {
	mu     sync.Mutex
	bounds map[int64]*leaderBind // by fence
}

type leaderBind struct {
	done chan struct{}
	err  error // set before done is closed
}

// leadersKept limits how many finished bindings of leaders are remembered.
const leadersKept = 4096

func newBindOrder() *bindOrder { return &bindOrder{bounds: map[int64]*leaderBind{}} }

func (b *bindOrder) entry(fence int64) *leaderBind {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.bounds[fence] == nil {
		b.bounds[fence] = &leaderBind{done: make(chan struct{})}
	}
	return b.bounds[fence]
}

// abandon ends the wait for a leader whose scheduling cycle ended before its binding was tried.
func (b *bindOrder) abandon(fence int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.bounds[fence]
	if e == nil {
		return
	}
	select {
	case <-e.done:
	default:
		e.err = errors.New("it is tried again")
		close(e.done)
		delete(b.bounds, fence)
	}
}

// finish records whether the leader of a gang is bound. After a failure, the next try of the gang starts anew.
func (b *bindOrder) finish(fence int64, err error) {
	e := b.entry(fence)
	b.mu.Lock()
	defer b.mu.Unlock()
	e.err = err
	close(e.done)
	if err != nil {
		delete(b.bounds, fence)
		return
	}
	for old := range b.bounds {
		if len(b.bounds) <= leadersKept {
			break
		}
		if old < fence-leadersKept {
			delete(b.bounds, old)
		}
	}
}
