package e2e

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// An observer looks at the pods of a scene again and again. It collects everything that must never happen.
type observer struct {
	scene *scene
	stop  context.CancelFunc
	done  chan struct{}

	mu       sync.Mutex
	places   map[types.UID]string // node and devices of each bound pod
	problems map[string]bool
}

// observe starts an observer, which ends with the test.
func (s *scene) observe() *observer {
	ctx, stop := context.WithCancel(s.t.Context())
	o := &observer{scene: s, stop: stop, done: make(chan struct{}), places: map[types.UID]string{}, problems: map[string]bool{}}
	go func() {
		defer close(o.done)
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				if list, err := s.pods(ctx, ""); err == nil { // the API server may be away
					o.look(list)
				}
			}
		}
	}()
	s.t.Cleanup(func() { stop(); <-o.done })
	return o
}

func (o *observer) look(list []v1.Pod) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, problem := range deviceProblems(list, o.scene.scheduler) {
		o.problems[problem] = true
	}
	for i := range list {
		p := &list[i]
		if p.Spec.NodeName == "" {
			continue
		}
		place := p.Spec.NodeName + " " + p.Annotations[devicesAnnotation]
		if before, seen := o.places[p.UID]; seen && before != place {
			o.problems[fmt.Sprintf("pod %s moved from %s to %s", p.Name, before, place)] = true
		}
		o.places[p.UID] = place
	}
}

// report fails the test for all that the observer saw.
func (o *observer) report(t testing.TB) {
	t.Helper()
	o.stop()
	<-o.done
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, problem := range slices.Sorted(maps.Keys(o.problems)) {
		t.Error(problem)
	}
}

// halfBound returns the gangs of which some pods are bound and others are not, and the number of bound pods. The sizes say
// how many pods each gang has.
func (s *scene) halfBound(ctx context.Context, sizes map[string]int) (half []string, all int, err error) {
	list, err := s.pods(ctx, "")
	if err != nil {
		return nil, 0, err
	}
	bound := map[string]int{}
	for i := range list {
		if list[i].Spec.NodeName != "" {
			bound[list[i].Labels[appLabel]]++
			all++
		}
	}
	for _, app := range slices.Sorted(maps.Keys(sizes)) {
		if bound[app] != 0 && bound[app] != sizes[app] {
			half = append(half, fmt.Sprintf("%s: %d of %d pods are bound", app, bound[app], sizes[app]))
		}
	}
	return half, all, nil
}

// halfBoundLimit is how long a gang may be half bound while a scheduler decides. On a busy machine the API server may be
// slow, so the time begins anew with every binding.
const halfBoundLimit = 5 * time.Second

// awaitWhole waits until the scheduler decides, which a pod shows that it binds, and then until no gang is half bound.
func (s *scene) awaitWhole(probe string, sizes map[string]int) {
	s.t.Helper()
	pod := s.pod(probe, 0)
	s.create(pod)
	s.awaitBound(probe, 1)
	bound, until := 0, time.Now().Add(halfBoundLimit)
	s.await(func(ctx context.Context) error {
		half, now, err := s.halfBound(ctx, sizes)
		if err != nil || len(half) == 0 {
			return err
		}
		if now != bound {
			bound, until = now, time.Now().Add(halfBoundLimit)
		}
		if time.Now().After(until) {
			s.t.Fatalf("gangs are half bound, and nothing was bound for %s: %v", halfBoundLimit, half)
		}
		return fmt.Errorf("gangs are half bound: %v", half)
	})
}
