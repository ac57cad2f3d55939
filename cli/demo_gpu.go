package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/agent/gpu"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/client"
)

// demoMachine has four GPUs in two pairs: linked within, across sockets between.
const demoMachine = "v100-4"

func (d *demo) gpus(ctx context.Context) error {
	a, err := d.joinMachine(ctx, "node-a", demoMachine)
	if err != nil {
		return err
	}
	node, err := d.known(ctx, "node-a")
	if err != nil {
		return err
	}
	v := newDeviceView(node, 2)
	d.tell("node-a is a simulated %s: %d GPUs found", demoMachine, len(v.Devices))
	say(d.app.out, "\n")
	d.app.writeDevices(d.app.out, v)
	say(d.app.out, "\n")
	d.app.writeLinks(d.app.out, v)
	say(d.app.out, "\n")
	d.tell("%s", nvlinks(v))
	if err = d.showBest(v); err != nil {
		return err
	}
	if err = d.placePair(ctx, a, v); err != nil {
		return err
	}

	id, err := d.submit(ctx, &apipb.JobSpec{Name: "demo-one", Command: []string{"true"}, GpuCount: 1})
	if err != nil {
		return err
	}
	seat, err := a.seat(ctx, id, 1)
	if err != nil {
		return err
	}
	if err = a.claim(ctx, seat); err != nil {
		return err
	}
	if node, err = d.admin.Node(ctx, "node-a"); err != nil {
		return err
	}
	v = newDeviceView(node, 2)
	d.tell("a job of 1 GPU takes %s; now the first two free GPUs are of two pairs", taken(v))
	if err = d.showBest(v); err != nil {
		return err
	}
	if v.Best.MBps <= v.FirstFit.MBps {
		return fmt.Errorf("the best pair has %d MB/s and the first %d", v.Best.MBps, v.FirstFit.MBps)
	}
	if err = d.placePair(ctx, a, v); err != nil {
		return err
	}
	return d.commit(ctx, a, seat)
}

// joinMachine brings in a node with the devices of a mock machine.
func (d *demo) joinMachine(ctx context.Context, name, profile string) (*player, error) {
	source, err := gpu.Mock(profile, name)
	if err != nil {
		return nil, err
	}
	m, err := source.Detect(ctx)
	if err != nil {
		return nil, err
	}
	return d.joinAs(ctx, client.NewRequestID(), apipb.NewNodeInfo(&ares.Node{
		ID: name, Address: "127.0.0.1", Devices: m.Devices, Links: m.Links, CPUs: m.CPUs, MemoryMB: m.MemoryMB,
		Mock: true, Contains: true, Version: Version,
	}))
}

// known waits until the server's lists have a node.
func (d *demo) known(ctx context.Context, name string) (*apipb.Node, error) {
	for {
		n, err := d.admin.Node(ctx, name)
		if ares.CodeOf(err) != ares.NotFound {
			return n, err
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// nvlinks counts the NVLinks of a machine and says between whom they are.
func nvlinks(v *deviceView) string {
	total := 0
	var pairs []string
	for i := range v.Devices {
		for j := range i {
			var n int
			if _, err := fmt.Sscanf(v.link(i, j), "NV%d", &n); err == nil {
				total += n
				pairs = append(pairs, fmt.Sprintf("%d between GPU%s and GPU%s", n, v.Devices[j].Name, v.Devices[i].Name))
			}
		}
	}
	return fmt.Sprintf("%d NVLinks detected: %s", total, strings.Join(pairs, ", "))
}

// taken names the GPUs that jobs hold.
func taken(v *deviceView) string {
	var names []string
	for _, d := range v.Devices {
		if !d.Free {
			names = append(names, "GPU"+d.Name)
		}
	}
	return strings.Join(names, ", ")
}

// showBest tells which pair is best and what first fit would take.
func (d *demo) showBest(v *deviceView) error {
	if v.Best == nil {
		return errors.New("there are no two free GPUs: " + strings.Join(v.Why, "; "))
	}
	say(d.app.out, "\nBest placement for 2 GPUs:\n")
	say(d.app.out, "  GPUs:       %s\n", v.Best.names())
	say(d.app.out, "  Score:      %d (%s)\n", v.Best.Score, v.Best.counts())
	say(d.app.out, "  Bandwidth:  %s (modelled)\n", v.Best.bandwidth())
	say(d.app.out, "  First fit:  %s, score %d, %s\n", v.FirstFit.names(), v.FirstFit.Score, v.FirstFit.bandwidth())
	for i, why := range v.Why {
		head := "  Reasoning: "
		if i > 0 {
			head = "             "
		}
		say(d.app.out, "%s %s\n", head, clean(why))
	}
	say(d.app.out, "\n")
	return nil
}

// placePair has a job of 2 GPUs placed, and wants it where the view says.
func (d *demo) placePair(ctx context.Context, p *player, v *deviceView) error {
	id, err := d.submit(ctx, &apipb.JobSpec{Name: "demo-pair", Command: []string{"true"}, GpuCount: 2})
	if err != nil {
		return err
	}
	seat, err := p.seat(ctx, id, 1)
	if err != nil {
		return err
	}
	job, err := d.admin.Job(ctx, id)
	if err != nil {
		return err
	}
	attempt := job.GetAttempts()[0]
	got := strings.Trim(fmt.Sprint(attempt.GetSeats()[0].GetGpus()), "[]")
	d.tell("GPU placement for %s: [%s] (score: %d)", id, got, attempt.GetScore())
	if want := strings.Join(v.Best.Devices, " "); got != want || int(attempt.GetScore()) != v.Best.Score {
		return fmt.Errorf("the job is on GPUs %s with score %d, want %s with %d", got, attempt.GetScore(), want, v.Best.Score)
	}
	if err = p.claim(ctx, seat); err != nil {
		return err
	}
	return d.commit(ctx, p, seat)
}
