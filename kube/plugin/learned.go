package plugin

import (
	"bytes"
	"context"
	"encoding/json"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
)

// What the scheduler learned about runtimes and nodes is in this ConfigMap. The chart creates it; without it, a restart
// forgets what was learned, and nothing else.
const (
	learnedNamespace = metav1.NamespaceSystem
	learnedName      = "topology-scheduler-learned"
)

// learnedKey is where this scheduler stores what it learned. Schedulers of other names have other keys.
func (p *Plugin) learnedKey() string { return p.handle.ProfileName() + ".json" }

// learnedRetry is the time between two tries to read the ConfigMap.
const learnedRetry = time.Second

// readLearned lets the planner continue from what an earlier process has learned. The planner decides nothing before, because
// otherwise an API server that is away for a moment would cost everything that was learned: it would be overwritten later.
func (p *Plugin) readLearned(ctx context.Context) {
	logger := klog.FromContext(ctx).WithName("ares")
	name := learnedNamespace + "/" + learnedName
	for {
		m, err := p.handle.ClientSet().CoreV1().ConfigMaps(learnedNamespace).Get(ctx, learnedName, metav1.GetOptions{})
		switch {
		case err == nil:
			if data := m.Data[p.learnedKey()]; data != "" {
				if err := p.planner.SetLearned([]byte(data), time.Now()); err != nil {
					logger.Error(err, "What was learned before is not valid; the scheduler starts without it", "configMap", name)
				}
			}
			p.learnedRead.Store(true)
			return
		case apierrors.IsNotFound(err) || apierrors.IsForbidden(err):
			logger.Info("What the scheduler learns is not kept over a restart", "configMap", name, "reason", err.Error())
			p.learnedRead.Store(true)
			return
		}
		logger.Error(err, "What was learned before cannot be read; the scheduler tries again", "configMap", name)
		select {
		case <-ctx.Done():
			return
		case <-time.After(learnedRetry):
		}
	}
}

// saveLearned stores what was learned, from time to time, while this process leads.
func (p *Plugin) saveLearned(ctx context.Context) {
	logger := klog.FromContext(ctx).WithName("ares")
	tick := time.NewTicker(p.saveEvery)
	defer tick.Stop()
	var saved []byte
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			data, err := p.planner.Learned(now)
			if err == nil && !bytes.Equal(data, saved) {
				err = p.writeLearned(ctx, data)
			}
			if err != nil {
				logger.Error(err, "What was learned is not stored; the scheduler tries again later", "after", p.saveEvery)
				continue
			}
			saved = data
		}
	}
}

// writeLearned replaces what was stored. The last writer wins: two leaders have learned nearly the same.
func (p *Plugin) writeLearned(ctx context.Context, data []byte) error {
	patch, err := json.Marshal(map[string]any{"data": map[string]string{p.learnedKey(): string(data)}})
	if err != nil {
		return err
	}
	_, err = p.handle.ClientSet().CoreV1().ConfigMaps(learnedNamespace).Patch(ctx, learnedName, types.MergePatchType, patch, metav1.PatchOptions{})
	return err
}
