package host

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/agent/gpu"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/cli/admin"
	"github.com/ares-scheduler/ares/cli/output"
	"github.com/ares-scheduler/ares/client"
)

// demoMachine is the name of a mock profile that describes a machine with two pairs of GPUs. NVLink
// connects the GPUs of a pair; the pairs are on different sockets.
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
	v := admin.NewDeviceView(node, 2)
	d.tell("node-a is a simulated %s: %d GPUs found", demoMachine, len(v.Devices))
	output.Printf(d.app.Out, "\n")
	v.WriteDevices(d.app.Out, d.app.Color)
	output.Printf(d.app.Out, "\n")
	v.WriteLinks(d.app.Out, d.app.Color)
	output.Printf(d.app.Out, "\n")
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
	v = admin.NewDeviceView(node, 2)
	d.tell("a job of 1 GPU takes %s; now the first two free GPUs are of two pairs", taken(v))
	if err = d.showBest(v); err != nil {
		return err
	}
	if v.Best.MBps <= v.FirstFit.MBps {
		return fmt.Errorf("the best pair of GPUs (%d MB/s) is not faster than the first two free GPUs (%d MB/s)", v.Best.MBps, v.FirstFit.MBps)
	}
	if err = d.placePair(ctx, a, v); err != nil {
		return err
	}
	return d.commit(ctx, a, seat)
}

// joinMachine adds a node with the devices of a mock profile.
func (d *demo) joinMachine(ctx context.Context, name, profile string) (*demoAgent, error) {
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
		Mock: true, Contains: true, Version: d.app.Version,
	}))
}

// The method `known` waits until the server lists the node with the given name.
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

// The function `nvlinks` counts the NVLink connections of a node and lists the devices that they
// connect.
func nvlinks(v *admin.DeviceView) string {
	total := 0
	var pairs []string
	for i := range v.Devices {
		for j := range i {
			var n int
			if _, err := fmt.Sscanf(v.Link(i, j), "NV%d", &n); err == nil {
				total += n
				pairs = append(pairs, fmt.Sprintf("%d between GPU%s and GPU%s", n, v.Devices[j].Name, v.Devices[i].Name))
			}
		}
	}
	return fmt.Sprintf("%d NVLinks detected: %s", total, strings.Join(pairs, ", "))
}

// The function `taken` lists the GPUs of a node that jobs use.
func taken(v *admin.DeviceView) string {
	var names []string
	for _, d := range v.Devices {
		if !d.Free {
			names = append(names, "GPU"+d.Name)
		}
	}
	return strings.Join(names, ", ")
}

// showBest prints the best pair and the pair that first fit would choose.
func (d *demo) showBest(v *admin.DeviceView) error {
	if v.Best == nil {
		return errors.New("there are no two free GPUs: " + strings.Join(v.Why, "; "))
	}
	output.Printf(d.app.Out, "\nBest placement for 2 GPUs:\n")
	output.Printf(d.app.Out, "  GPUs:       %s\n", v.Best.Names())
	output.Printf(d.app.Out, "  Score:      %d (%s)\n", v.Best.Score, v.Best.Counts())
	output.Printf(d.app.Out, "  Bandwidth:  %s (modelled)\n", v.Best.Bandwidth())
	output.Printf(d.app.Out, "  First fit:  %s, score %d, %s\n", v.FirstFit.Names(), v.FirstFit.Score, v.FirstFit.Bandwidth())
	for i, why := range v.Why {
		head := "  Reasoning: "
		if i > 0 {
			head = "             "
		}
		output.Printf(d.app.Out, "%s %s\n", head, output.Clean(why))
	}
	output.Printf(d.app.Out, "\n")
	return nil
}

// placePair places a job with 2 GPUs and checks that it gets the best pair.
func (d *demo) placePair(ctx context.Context, p *demoAgent, v *admin.DeviceView) error {
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
		return fmt.Errorf("the job is on GPUs %s (score %d), but the best GPUs are %s (score %d)", got, attempt.GetScore(), want, v.Best.Score)
	}
	if err = p.claim(ctx, seat); err != nil {
		return err
	}
	return d.commit(ctx, p, seat)
}
