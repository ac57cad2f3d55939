package load

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/test/bench/rounds"
)

// floodOrder is the environment variable that makes this program run a flood.
const floodOrder = "ARES_PERF_FLOOD"

// An `order` says at what rate and to which server the flood sends its calls.
type order struct {
	HTTP, GRPC, Token string
	Rate, Seconds     int
	Answers           string // file that receives the results
}

// spoutsOfAKind is the maximum number of concurrent calls of one kind. If a
// server lets callers wait for one second, it can queue slightly fewer calls
// than this maximum.
var spoutsOfAKind = rounds.Sized(1500, 20)

// The flood sends these kinds of calls in rotation.
var kinds = []string{"REST list", "REST submit", "gRPC list", "gRPC submit"}

// The type `seen` counts the results of the calls of one kind.
type seen struct {
	Sent, OK, Shed, Failed int
	Unsent                 int             // not sent because every connection was busy and the queue was full
	Took                   []time.Duration // latencies of successful calls, measured from the time they were due
	Turned                 []time.Duration // latencies of calls that the server shed
	Failures               map[string]int
}

// The type `flood` holds the results of one flood of calls.
type flood struct {
	Kinds        map[string]*seen
	Acknowledged []string // IDs of acknowledged jobs
	Seconds      float64
}

func (f *flood) print(b *testing.B) {
	rows := [][]string{{"call", "offered/s", "sent/s", "served/s", "429/s", "failed", "served p50", "p99", "429 p50", "p99"}}
	var offered, sent, ok, shed, failed int
	rate := func(n int) string { return fmt.Sprintf("%.0f", float64(n)/f.Seconds) }
	for _, k := range kinds {
		s := f.Kinds[k]
		offered, sent, ok, shed, failed = offered+s.Sent+s.Unsent, sent+s.Sent, ok+s.OK, shed+s.Shed, failed+s.Failed
		p50, p99 := quantiles(s.Took)
		t50, t99 := quantiles(s.Turned)
		rows = append(rows, []string{k, rate(s.Sent + s.Unsent), rate(s.Sent), rate(s.OK), rate(s.Shed), fmt.Sprint(s.Failed), short(p50), short(p99), short(t50), short(t99)})
		for why, n := range s.Failures { // order-free: only printed for people
			b.Logf("%s: %d failed: %s", k, n, why)
		}
	}
	rows = append(rows, []string{"all", rate(offered), rate(sent), rate(ok), rate(shed), fmt.Sprint(failed), "", "", "", ""})
	table(b, fmt.Sprintf("A flood of %.0f s; times count from when a call was due", f.Seconds), rows)
}

// The type `due` is one call and the time at which it should be made.
type due struct {
	at time.Time
	n  int
}

// A `spout` is a function that makes calls of one kind, one after another, over one
// connection.
type spout func(ctx context.Context, n int) (job string, shed bool, err error)

// pourOut sends calls at a steady rate, whatever results they have. It writes the results
// to a file.
func pourOut(text string) error {
	var o order
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return err
	}
	f := &flood{Kinds: map[string]*seen{}}
	var mu sync.Mutex
	queues := make([]chan due, len(kinds))
	var spouts sync.WaitGroup
	for k, kind := range kinds {
		queues[k] = make(chan due, o.Rate/4) // one second of calls of this kind
		f.Kinds[kind] = &seen{Failures: map[string]int{}}
		pours, err := o.spouts(k, spoutsOfAKind)
		if err != nil {
			return err
		}
		for _, pour := range pours {
			spouts.Go(func() {
				own := &seen{Failures: map[string]int{}}
				jobs := own.drain(queues[k], pour)
				mu.Lock()
				defer mu.Unlock()
				f.Kinds[kind].add(own)
				f.Acknowledged = append(f.Acknowledged, jobs...)
			})
		}
	}
	begin := time.Now()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for n := 0; n < o.Rate*o.Seconds; {
		now := <-tick.C
		for ; n < min(int(now.Sub(begin).Seconds()*float64(o.Rate)), o.Rate*o.Seconds); n++ {
			select {
			case queues[n%len(kinds)] <- due{begin.Add(time.Duration(n) * time.Second / time.Duration(o.Rate)), n}:
			default:
				mu.Lock()
				f.Kinds[kinds[n%len(kinds)]].Unsent++
				mu.Unlock()
			}
		}
	}
	f.Seconds = time.Since(begin).Seconds()
	for k, q := range queues {
		close(q)
		for range q { // count the calls for which no connection was free
			mu.Lock()
			f.Kinds[kinds[k]].Unsent++
			mu.Unlock()
		}
	}
	spouts.Wait()
	data, err := json.Marshal(f)
	if err != nil {
		return err
	}
	return os.WriteFile(o.Answers, data, 0o600)
}

// The method `drain` takes calls from a queue and makes them until the queue is closed. It
// returns the IDs of acknowledged jobs.
func (s *seen) drain(queue chan due, pour spout) (jobs []string) {
	for d := range queue {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		s.Sent++
		job, shed, err := pour(ctx, d.n)
		cancel()
		took := time.Since(d.at)
		switch {
		case err != nil:
			s.Failed++
			s.Failures[err.Error()[:min(len(err.Error()), 120)]]++
		case shed:
			s.Shed++
			s.Turned = append(s.Turned, took)
		default:
			s.OK++
			s.Took = append(s.Took, took)
			if job != "" {
				jobs = append(jobs, job)
			}
		}
	}
	return jobs
}

func (s *seen) add(o *seen) {
	s.Sent, s.OK, s.Shed, s.Failed = s.Sent+o.Sent, s.OK+o.OK, s.Shed+o.Shed, s.Failed+o.Failed
	s.Took, s.Turned = append(s.Took, o.Took...), append(s.Turned, o.Turned...)
	for why, n := range o.Failures { // order-free: sums
		if len(s.Failures) < 8 || s.Failures[why] > 0 {
			s.Failures[why] += n
		}
	}
}

// This method makes n spouts of one kind. Over gRPC, up to a hundred spouts
// share one connection.
func (o *order) spouts(kind, n int) (pours []spout, err error) {
	var c apipb.JobServiceClient
	for i := range n {
		if kind < 2 {
			pours = append(pours, (&restSpout{order: o, submit: kind == 1}).pour)
			continue
		}
		if i%100 == 0 {
			conn, err := dial(o.GRPC, o.Token)
			if err != nil {
				return nil, err
			}
			c = apipb.NewJobServiceClient(conn)
		}
		pours = append(pours, func(ctx context.Context, n int) (string, bool, error) { return callGRPC(ctx, c, kind == 3, n) })
	}
	return pours, nil
}

func callGRPC(ctx context.Context, c apipb.JobServiceClient, submit bool, n int) (job string, shed bool, err error) {
	if submit {
		var resp *apipb.SubmitJobResponse
		resp, err = c.SubmitJob(ctx, &apipb.SubmitJobRequest{Job: &apipb.JobSpec{
			RequestId: fmt.Sprint("flood-", n), Name: "flood", GpuCount: 8, Command: []string{"python", "train.py"},
		}})
		job = resp.GetJobId()
	} else {
		_, err = c.ListJobs(ctx, &apipb.ListJobsRequest{})
	}
	if status.Code(err) == codes.ResourceExhausted {
		return "", true, nil
	}
	return job, false, err
}

// restSpout makes HTTP calls over its own connection. It does as little work as
// possible, because the flood shares the machine with the server under test.
type restSpout struct {
	*order
	submit bool
	conn   net.Conn
	in     *bufio.Reader
}

func (r *restSpout) close() {
	if r.conn != nil {
		_ = r.conn.Close()
		r.conn = nil
	}
}

func (r *restSpout) pour(ctx context.Context, n int) (job string, shed bool, err error) {
	if r.conn == nil {
		if r.conn, err = (&net.Dialer{}).DialContext(ctx, "tcp", r.HTTP); err != nil {
			return "", false, errors.New("connect")
		}
		r.in = bufio.NewReader(r.conn)
	}
	deadline, _ := ctx.Deadline()
	_ = r.conn.SetDeadline(deadline) // an error on a closed connection appears below
	job, shed, err = r.call(n)
	if err != nil {
		r.close()
	}
	return job, shed, err
}

func (r *restSpout) call(n int) (job string, shed bool, err error) {
	head, body := "GET /api/v1/jobs HTTP/1.1\r\n", ""
	if r.submit {
		body = fmt.Sprintf(`{"request_id":"flood-%d","name":"flood","gpu_count":8,"command":["python","train.py"]}`, n)
		head = fmt.Sprintf("POST /api/v1/jobs HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: %d\r\n", len(body))
	}
	if _, err = io.WriteString(r.conn, head+"Host: localhost\r\nAuthorization: Bearer "+r.Token+"\r\n\r\n"+body); err != nil {
		return "", false, err
	}
	resp, err := http.ReadResponse(r.in, nil)
	if err != nil {
		return "", false, err
	}
	defer resp.Body.Close()
	if !r.submit || resp.StatusCode >= 300 {
		_, err = io.Copy(io.Discard, resp.Body)
	}
	switch {
	case err != nil:
		return "", false, err
	case resp.StatusCode == http.StatusTooManyRequests:
		return "", true, nil
	case resp.StatusCode >= 300:
		return "", false, errors.New(resp.Status)
	case !r.submit:
		return "", false, nil
	}
	var answer struct {
		JobID string `json:"job_id"`
	}
	err = json.NewDecoder(resp.Body).Decode(&answer)
	return answer.JobID, false, err
}

// submitOnce submits one job over REST.
func submitOnce(ctx context.Context, p *testServer, requestID string) (id string, err error) {
	body := fmt.Sprintf(`{"request_id":%q,"command":["true"]}`, requestID)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.server.URL("/api/v1/jobs"), strings.NewReader(body))
	if err != nil {
		return "", err
	}
	req.Header.Set("Authorization", "Bearer "+p.admin)
	req.Header.Set("Content-Type", "application/json")
	resp, err := (&http.Client{}).Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusCreated {
		err = fmt.Errorf("submit answered %s %s", resp.Status, bytes.TrimSpace(text))
	}
	var answer struct {
		JobID string `json:"job_id"`
	}
	if err == nil {
		err = json.Unmarshal(text, &answer)
	}
	return answer.JobID, err
}
