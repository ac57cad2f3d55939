package server_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ares-scheduler/ares/apipb"
)

// fakeSMI puts a fake nvidia-smi into PATH. The fake reports one H200. While a certain file exists, it also
// reports a process on that GPU.
func fakeSMI(t *testing.T) (stuck string) {
	t.Helper()
	sample, err := os.ReadFile("../agent/gpu/testdata/h200x1.q.xml")
	if err != nil {
		t.Fatal(err)
	}
	topology, err := filepath.Abs("../agent/gpu/testdata/h200x1.topo-m.txt")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	stuck = filepath.Join(dir, "stuck")
	process := "<processes><process_info><gpu_instance_id>N/A</gpu_instance_id><compute_instance_id>N/A</compute_instance_id>" +
		"<pid>1</pid><type>C</type><process_name>stuck</process_name><used_memory>10 MiB</used_memory></process_info>"
	for name, text := range map[string]string{
		"clean.xml": string(sample),
		"busy.xml":  strings.Replace(string(sample), "<processes>", process, 1),
		"nvidia-smi": "#!/bin/sh\ncase \"$*\" in\n*topo*) exec cat " + topology + ";;\nesac\n" +
			"if [ -e " + stuck + " ]; then exec cat " + dir + "/busy.xml; fi\nexec cat " + dir + "/clean.xml\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700); err != nil { //nolint:gosec // it is a program
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	return stuck
}

// TestADeviceThatDoesNotComeCleanIsNotGivenAway leaves a process on the GPU of an ended job. The device must be
// reported as unusable before the seat is released. Otherwise the next job would get this device.
func TestADeviceThatDoesNotComeCleanIsNotGivenAway(t *testing.T) {
	stuck := fakeSMI(t)
	_, c := up(t, "")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	first, err := c.Submit(ctx, &apipb.JobSpec{Name: "first", GpuCount: 1, Command: []string{"touch", stuck}})
	if err != nil {
		t.Fatal(err)
	}
	next, err := c.Submit(ctx, &apipb.JobSpec{Name: "next", GpuCount: 1, Command: []string{"true"}})
	if err != nil {
		t.Fatal(err)
	}
	j, err := c.Wait(ctx, first.JobId)
	if err != nil || j.State != "succeeded" {
		t.Fatal(j.GetState(), j.GetReason(), err)
	}
	j, err = c.WaitUntil(ctx, first.JobId, func(j *apipb.Job) bool { return j.Attempts[0].Seats[0].State == "released" })
	if err != nil {
		t.Fatal(err)
	}
	// Nodes are listed from the server's view, which may lag behind the store.
	if _, err = c.Jobs(ctx, &apipb.ListJobsRequest{MinRevision: j.Revision}); err != nil {
		t.Fatal(err)
	}
	n, err := c.Node(ctx, j.Attempts[0].Seats[0].Node)
	if err != nil {
		t.Fatal(err)
	}
	if d := n.Devices[0]; d.Healthy || !strings.Contains(d.Reason, "quarantined") {
		t.Errorf("the device is healthy: %v (%s)", d.Healthy, d.Reason)
	}
	if j, err = c.Job(ctx, next.JobId); err != nil || j.State != "pending" || len(j.WaitingFor) == 0 {
		t.Errorf("the next job is %s, waiting for %v: %v", j.GetState(), j.GetWaitingFor(), err)
	}
}
