package federation_test

import (
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/control/controltest"
	"github.com/ares-scheduler/ares/federation/grant"
)

// lossy is a stream of the hub that loses some messages about loans, and ends when it loses one of the hub.
type lossy struct {
	grpc.ServerStream

	seen *atomic.Int64
}

func (s *lossy) SendMsg(m any) error {
	if sent, is := m.(*apipb.HubMessage); is && sent.GetLoan() != nil && s.seen.Add(1)%5 == 0 {
		return errors.New("the stream has lost a message")
	}
	return s.ServerStream.SendMsg(m)
}

func (s *lossy) RecvMsg(m any) error {
	for {
		if err := s.ServerStream.RecvMsg(m); err != nil {
			return err
		}
		if got, is := m.(*apipb.MemberMessage); !is || got.GetLoan() == nil || s.seen.Add(1)%3 != 0 {
			return nil
		}
	}
}

// TestQuotaHolds runs jobs of a tenant with a limit while messages are lost, links are cut and the hub's leader changes. The
// loans and the use must never exceed the limit (O8), and every job must end.
func TestQuotaHolds(t *testing.T) { holdQuota(t, false) }

// TestQuotaHoldsWithChooser is TestQuotaHolds with a hub that chooses clusters by their summaries.
func TestQuotaHoldsWithChooser(t *testing.T) { holdQuota(t, true) }

func holdQuota(t *testing.T, choosing bool) {
	t.Helper()
	const limit = 5
	check := newQuotaCheck(t, limit)
	var seen atomic.Int64
	h := newHub(t, func(h *hub) {
		h.choosing = choosing
		h.options = append(h.options, grpc.StreamInterceptor(func(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
			return handler(srv, &lossy{stream, &seen})
		}))
	})
	h.limit(limit)
	stop := check.watchLoans(h)
	var members []*member
	for _, name := range []string{"a", "b", "c"} {
		m := newMember(t, h, name, check.member(h))
		close(m.gate)
		members = append(members, m)
		h.awaitKnown(name)
	}
	defer explainLoans(h, members...)
	random := rand.New(rand.NewPCG(1, 2))
	type here struct {
		m  *member
		id ares.JobID
	}
	var jobs []ares.JobID
	var local []here
	for round := range 6 {
		for range 3 {
			jobs = append(jobs, h.submit(gpus(1+random.IntN(limit))))
		}
		m := members[random.IntN(len(members))]
		if m.view.Tenant(h.tenant.ID).Loan != nil { // before, its own limits apply
			local = append(local, here{m, m.submitHere(h, gpus(1+random.IntN(limit)))})
		}
		cut := members[random.IntN(len(members))]
		cut.wire.set(true)
		if round%4 == 3 {
			h.stop()
			h.start(h.addr)
		}
		cut.awaitMode(grant.Autonomous)
		cut.wire.set(false)
		h.await(jobs[random.IntN(len(jobs))], ares.Succeeded)
	}
	for _, id := range jobs {
		h.await(id, ares.Succeeded)
	}
	for _, l := range local {
		l.m.await(l.id, ares.Succeeded)
	}
	stop()
	if check.most < limit {
		t.Errorf("the jobs used at most %d devices of %d", check.most, limit)
	}
}

// forger is a stream of the hub that repeats each loan as one of an earlier incarnation, with a later version and more devices.
type forger struct{ grpc.ServerStream }

func (s *forger) SendMsg(m any) error {
	if sent, is := m.(*apipb.HubMessage); is && sent.GetLoan() != nil {
		late := proto.CloneOf(sent)
		late.GetLoan().Incarnation += "-"
		late.GetLoan().Version += 1000
		late.GetLoan().Gpus = 100
		if err := s.ServerStream.SendMsg(late); err != nil {
			return err
		}
	}
	return s.ServerStream.SendMsg(m)
}

// TestLoanOfAnotherIncarnation sends a member loans that were told to another incarnation. It must take none of them.
func TestLoanOfAnotherIncarnation(t *testing.T) {
	h := newHub(t, func(h *hub) {
		h.options = append(h.options, grpc.StreamInterceptor(func(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
			return handler(srv, &forger{stream})
		}))
	})
	h.limit(3)
	a := newMember(t, h, "a")
	close(a.gate)
	h.federate(a)
	loan := func() *ares.Loan {
		if tenant := a.view.Tenant(h.tenant.ID); tenant != nil {
			return tenant.Loan
		}
		return nil
	}
	controltest.Await(t, a.view, "the first loan", func() bool { return loan() != nil })
	if got := loan(); got.GPUs > 3 {
		t.Fatalf("the loan is %+v", got)
	}
	h.await(h.submit(gpus(3)), ares.Succeeded)
	if got := loan(); got.GPUs > 3 {
		t.Errorf("the loan is %+v", got)
	}
}

// noSummaries is a stream of the hub that loses the summaries of members while the switch is on.
type noSummaries struct {
	grpc.ServerStream

	on *atomic.Bool
}

func (s *noSummaries) RecvMsg(m any) error {
	for {
		if err := s.ServerStream.RecvMsg(m); err != nil {
			return err
		}
		if got, is := m.(*apipb.MemberMessage); !is || got.GetSummary() == nil || !s.on.Load() {
			return nil
		}
	}
}

// TestUnreportedUse asks a cluster for its loan that uses most of it without the hub's knowledge. The hub must not lend what is in
// use.
func TestUnreportedUse(t *testing.T) {
	var lost atomic.Bool
	h := newHub(t, func(h *hub) {
		h.options = append(h.options, grpc.StreamInterceptor(func(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
			return handler(srv, &noSummaries{stream, &lost})
		}))
	})
	h.limit(8)
	a, b := newMember(t, h, "a"), newMember(t, h, "b")
	defer explainLoans(h, a, b)
	h.awaitKnown("b")
	h.federate(a)
	h.awaitLoan(a, 8)
	lost.Store(true)
	running := a.submitHere(h, gpus(6))
	a.await(running, ares.Running)
	large := h.submit(gpus(8), inB)
	placed := func(id ares.JobID) bool { e := b.view.Job(id); return e != nil && e.Run.Placed > 0 }
	asked := func() bool { l := h.loanOf(a); return l.Limit == 0 && l.GPUs == 6 }
	controltest.Await(t, b.view, "the answer of a", func() bool { return placed(large) || asked() })
	if placed(large) {
		t.Fatalf("6 of 8 devices are in use in one cluster, and a job of 8 was started in the other one: %+v, %+v", h.loanOf(a), h.loanOf(b))
	}
	small := h.submit(gpus(2), inB)
	lost.Store(false)
	a.wire.set(true) // a new session begins with a summary
	a.wire.set(false)
	controltest.Await(t, b.view, "the small job to be placed", func() bool { return placed(small) })
	close(a.gate)
	close(b.gate)
	h.await(large, ares.Succeeded)
}

// noAnswers is a stream of the hub that loses the answers of cluster b about loans.
type noAnswers struct {
	grpc.ServerStream

	cluster string
}

func (s *noAnswers) RecvMsg(m any) error {
	for {
		if err := s.ServerStream.RecvMsg(m); err != nil {
			return err
		}
		got, is := m.(*apipb.MemberMessage)
		if is && got.GetHello() != nil {
			s.cluster = got.GetHello().GetCluster()
		}
		if !is || got.GetLoan() == nil || s.cluster != "b" {
			return nil
		}
	}
}

// TestClusterDoesNotAnswer lets a cluster say nothing about its loans. The jobs of the other cluster must start all the same.
func TestClusterDoesNotAnswer(t *testing.T) {
	h := newHub(t, func(h *hub) {
		h.options = append(h.options, grpc.StreamInterceptor(func(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
			return handler(srv, &noAnswers{ServerStream: stream})
		}))
	})
	h.limit(8)
	a, b := newMember(t, h, "a"), newMember(t, h, "b")
	defer explainLoans(h, a, b)
	h.federate(b)
	controltest.Await(t, h.view, "the question to b", func() bool { return h.loanOf(b).Fresh })
	close(a.gate)
	h.await(h.submit(gpus(8), inA), ares.Succeeded)
	if l := h.loanOf(b); !l.Fresh || l.GPUs > 0 {
		t.Errorf("b has the loan %+v without an answer", l)
	}
}
