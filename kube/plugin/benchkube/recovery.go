package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ares-scheduler/ares/kube/plugin/kubetest"
)

// recovery of a gang after the loss of one of its nodes.
type recovery struct {
	pods   int           // replacements that were needed
	exist  time.Duration // from the loss of the node until all replacements exist
	bound  time.Duration // from the loss of the node until all are bound
	placed time.Duration // from when all exist until all are bound
}

// recoverLease and recoverToleration are how long Kubernetes itself waits before it replaces the pods of a lost node. They are
// short here, because the benchmark is about the scheduler.
const (
	recoverLease      = 8 * time.Second
	recoverToleration = time.Second
)

// recovery runs one gang after the other, loses a node of each and measures the replacement. Each loss has a gang of its own,
// because the Job controller waits longer after each failure of a Job.
func (s settings) recovery(ctx context.Context) ([]recovery, error) {
	progress("recovery: a gang of %d pods on %d nodes, %d of which are lost", s.gang, s.lostNodes, s.losses)
	c, stop, err := cluster(ctx, s.lostNodes, kubetest.Options{NodeLease: recoverLease, Toleration: recoverToleration})
	if err != nil {
		return nil, err
	}
	defer stop()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	seen, err := watch(ctx, c)
	if err != nil {
		return nil, err
	}
	process, err := startAres(c)
	if err != nil {
		return nil, err
	}
	ctx, cancel = process.While(ctx)
	defer cancel()
	var all []recovery
	for i := range s.losses {
		name := fmt.Sprintf("gang-%d", i)
		got, err := s.loseOne(ctx, c, seen, process, name)
		if err != nil {
			return nil, err
		}
		progress("replacements: %d, exist after %s, bound %s later", got.pods, got.exist.Round(time.Millisecond), got.placed.Round(time.Millisecond))
		all = append(all, got)
	}
	return all, nil
}

// createGang creates an indexed Job whose pods each need a whole node.
func createGang(ctx context.Context, c *kubetest.Cluster, name string, size int) error {
	pods, indexed, retries := int32(size), batchv1.IndexedCompletion, int32(1000)
	_, err := c.Client.BatchV1().Jobs(metav1.NamespaceDefault).Create(ctx, &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: batchv1.JobSpec{
			Parallelism: &pods, Completions: &pods, CompletionMode: &indexed, BackoffLimit: &retries,
			Template: v1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{
					"topology.scheduler/gpu-count": strconv.Itoa(size * gpusPerNode),
				}},
				Spec: kubetest.PodSpec(kubetest.AresSchedulerName, gpusPerNode),
			},
		},
	}, metav1.CreateOptions{})
	return err
}

// loseOne runs a gang until one of its nodes is lost and the gang is whole again.
func (s settings) loseOne(ctx context.Context, c *kubetest.Cluster, seen *recorder, process *kubetest.Process, gang string) (recovery, error) {
	if err := createGang(ctx, c, gang, s.gang); err != nil {
		return recovery{}, err
	}
	complete := func(context.Context) error {
		if _, whole := replaced(seen.members(gang), time.Time{}, s.gang); !whole {
			return fmt.Errorf("%s is not bound; the end of %s:\n%s", gang, process.Log, process.Tail())
		}
		return nil
	}
	const patience, every = 2 * time.Minute, 20 * time.Millisecond
	if err := kubetest.Await(ctx, patience, every, complete); err != nil {
		return recovery{}, err
	}
	node := seen.members(gang)[0].node
	lost := time.Now()
	if err := c.LoseNode(ctx, node); err != nil {
		return recovery{}, err
	}
	var got recovery
	err := kubetest.Await(ctx, patience, every, func(context.Context) (err error) {
		var whole bool
		if got, whole = replaced(seen.members(gang), lost, s.gang); !whole {
			err = fmt.Errorf("%s is not whole again, with %d replacements, after node %s was lost; the end of %s:\n%s",
				gang, got.pods, node, process.Log, process.Tail())
		}
		return err
	})
	if err != nil {
		return recovery{}, err
	}
	background := metav1.DeletePropagationBackground
	return got, c.Client.BatchV1().Jobs(metav1.NamespaceDefault).Delete(ctx, gang, metav1.DeleteOptions{PropagationPolicy: &background})
}

// replaced says whether the gang is whole again after the loss, and how long that took.
func replaced(pods []record, lost time.Time, size int) (got recovery, whole bool) {
	members := 0
	for _, pod := range pods {
		if pod.gone {
			continue
		}
		if pod.node != "" {
			members++
		}
		if pod.created.Before(lost) {
			continue
		}
		got.pods++
		got.exist = max(got.exist, pod.created.Sub(lost))
		got.bound = max(got.bound, pod.bound.Sub(lost))
	}
	got.placed = got.bound - got.exist
	return got, got.pods > 0 && members == size
}
