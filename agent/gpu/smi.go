package gpu

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/ares-scheduler/ares"
)

// SMI returns a Source that calls the nvidia-smi program at the given path. One answer of nvidia-smi may take up to
// 30 seconds, and only one call runs at a time.
func SMI(path string) Source {
	return smi{command{path: path, limit: commandTimeout, gate: newGate()}}
}

type smi struct{ command command }

func (s smi) Detect(ctx context.Context) (Machine, error) {
	var m Machine
	m.host()
	q, err := s.query(ctx, &m)
	if err != nil {
		return Machine{}, err
	}
	m.Driver = q.driver
	if lost := q.attached - len(q.cards); lost > 0 {
		m.warn(fmt.Sprintf("%d of %d cards do not answer", lost, q.attached))
	}
	if len(q.cards) == 0 {
		return m, nil
	}
	t, err := s.topology(ctx)
	if err != nil {
		// Without the topology, jobs still run, but they may not get the best devices.
		m.warn("links are not known, all count as SYS: " + err.Error())
	}
	numa := func(c *card) int {
		if n, ok := t.numa[c.number]; ok {
			return n
		}
		return sysfsNUMA(c.bus)
	}
	m.fill(places(q.cards, numa), func(a, b *card) string {
		if l, ok := t.links[[2]int{a.number, b.number}]; ok {
			return l
		}
		return "SYS"
	})
	return m, nil
}

func (s smi) Busy(ctx context.Context, ids []string) ([]Process, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	var m Machine
	q, err := s.query(ctx, &m)
	if err != nil {
		return nil, err
	}
	return busy(q.cards, ids)
}

// The method `query` reads the cards, and the names of their MIG slices if they have any.
func (s smi) query(ctx context.Context, m *Machine) (query, error) {
	out, failed := s.command.output(ctx, "-q", "-x")
	if failed != nil && bytes.Contains(out, []byte("No devices were found")) {
		return query{}, nil
	}
	q, err := parseQuery(out)
	if failed != nil {
		if err != nil || len(q.cards) == 0 {
			return query{}, fmt.Errorf("find devices: %w", failed)
		}
		m.warn(failed.Error())
	}
	if err != nil {
		return query{}, ares.Errorf(ares.Unavailable, "find devices: %s: %v", s.command.path, err)
	}
	if slices.ContainsFunc(q.cards, func(c card) bool { return len(c.slices) > 0 }) {
		list, err := s.command.output(ctx, "-L")
		if err != nil && len(list) == 0 {
			return query{}, fmt.Errorf("find MIG slices: %w", err)
		}
		if n := q.name(list); n > 0 {
			m.warn(fmt.Sprintf("%d MIG slices have no UUID and are left out", n))
		}
	}
	if err := checkIDs(q.cards); err != nil {
		return query{}, ares.Errorf(ares.Unavailable, "find devices: %v", err)
	}
	return q, nil
}

func (s smi) topology(ctx context.Context) (topology, error) {
	out, err := s.command.output(ctx, "topo", "-m")
	if err != nil {
		return topology{}, err
	}
	return parseTopology(out)
}
