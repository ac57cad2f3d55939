package client_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"time"

	"google.golang.org/grpc"

	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/client"
)

// The example submits a job, waits until it ends and prints its output.
func Example() {
	addr, stop := demoServer() // normally "127.0.0.1:9090", where `ares up` listens
	defer stop()

	c, err := client.New(client.Options{
		Addresses: []string{addr},
		Token:     os.Getenv("ARES_TOKEN"), // or TokenFile: "~/.local/share/ares/admin.token"
	})
	if err != nil {
		panic(err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	submitted, err := c.Submit(ctx, &apipb.JobSpec{
		RequestId: "unique-request-id", // for idempotency: sending it again returns the same job
		Name:      "ml-training-job",
		Image:     "pytorch:2.0",
		Command:   []string{"python", "train.py"},
		CpuCores:  8,
		GpuCount:  2,
		Retry:     &apipb.RetryPolicy{MaxRetries: new(int32(5))}, // default 3
	})
	if err != nil {
		panic(err)
	}
	fmt.Println(submitted.GetJobId(), submitted.GetStatus())

	job, err := c.Wait(ctx, submitted.GetJobId())
	if err != nil {
		panic(err)
	}
	fmt.Println(job.GetState())
	if err := c.Logs(ctx, job.GetJobId(), client.LogOptions{}, os.Stdout); err != nil {
		panic(err)
	}
	// Output:
	// job-bfhlxmw7vw674t5fmodio56i submitted
	// succeeded
	// epoch 1: loss 0.25
}

// demoServer replaces an Ares server, so that the example runs as a test.
func demoServer() (addr string, stop func()) {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	f := &fake{jobs: map[string]bool{}, states: []string{"pending", "running", "succeeded"}, logs: []any{"epoch 1: loss 0.25\n"}}
	srv := grpc.NewServer()
	apipb.RegisterJobServiceServer(srv, f)
	done := make(chan error, 1)
	go func() { done <- srv.Serve(lis) }()
	return lis.Addr().String(), func() {
		srv.Stop()
		<-done
	}
}
