package session

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/client"
	"github.com/ares-scheduler/ares/test/cluster"
	"github.com/ares-scheduler/ares/test/live"
)

// A stopped reader passes the output on after it was told to go on.
type stopped struct {
	to         io.Writer
	goOn       chan struct{}
	reached    chan struct{} // closed at the first output
	hasStopped sync.Once
}

func newStopped() *stopped { return &stopped{goOn: make(chan struct{}), reached: make(chan struct{})} }

func (r *stopped) Write(b []byte) (int, error) {
	r.hasStopped.Do(func() { close(r.reached) })
	<-r.goOn
	return r.to.Write(b)
}

// The method `over` attaches a user whose output goes through the reader.
func (r *stopped) over(o *client.AttachOptions) { r.to, o.Output = o.Output, r }

// TestAttachSlowReader attaches two users to a job, of which one stops reading the output. Neither the job nor the other user waits for it. When
// the reader goes on, it gets all output once. A user who does not read can leave all the same.
func TestAttachSlowReader(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	const lines = 1_500_000 // 11 MB, which is more than all buffers between the job and its user
	dir := t.TempDir()
	const script = `while read word; do
	case $word in
	print*) seq "$1"; echo end of $word; touch "$0/$word";;
	*) echo got $word;;
	esac
done`
	id := s.submitAs(s.near, &apipb.JobSpec{Name: "prints", Command: []string{"sh", "-c", script, dir, strconv.Itoa(lines)}, Stdin: true, Members: 2, GpuCount: 1})
	printed := func(word string) {
		t.Helper()
		live.Await(t, cluster.Patience, "the job to print everything", func() (bool, string) {
			_, err := os.Stat(filepath.Join(dir, word))
			return err == nil, fmt.Sprint(err)
		})
	}
	slow := newStopped()
	first := s.attach(t.Context(), s.far, id, slow.over)
	first.isAttached()
	second := s.attach(t.Context(), s.near, id, func(o *client.AttachOptions) { o.Rank = 1 })
	second.isAttached()
	_, _ = first.input.Write([]byte("print1\n"))
	<-slow.reached
	printed("print1")
	_, _ = second.input.Write([]byte("one\n"))
	second.sees("got one\n")
	_, _ = first.input.Write([]byte("typed\n")) // the other direction is open
	live.Await(t, cluster.Patience, "what the user types", func() (bool, string) {
		var b bytes.Buffer
		err := s.far.Logs(t.Context(), id, client.LogOptions{Tail: new(1)}, &b)
		return b.String() == "got typed\n", fmt.Sprint(b.String(), err)
	})
	var want bytes.Buffer
	for n := range lines {
		fmt.Fprintln(&want, n+1)
	}
	want.WriteString("end of print1\ngot typed\n")
	close(slow.goOn)
	live.Await(t, cluster.Patience, "the slow user to read everything", func() (bool, string) {
		n := len(first.seen())
		return n >= want.Len(), fmt.Sprint(n, " bytes of ", want.Len())
	})
	if first.seen() != want.String() {
		t.Errorf("the slow user has read other output, with %d bytes", len(first.seen()))
	}

	never := newStopped()
	defer close(never.goOn)
	stuck := s.attach(t.Context(), s.far, id, func(o *client.AttachOptions) {
		o.Tail = 0
		never.over(o)
	})
	stuck.isAttached()
	if err := first.leaves(); ares.CodeOf(err) != ares.LimitReached {
		t.Errorf("the first user is told %v", err)
	}
	_, _ = stuck.input.Write([]byte("print2\n"))
	<-never.reached
	printed("print2")
	left := errors.New("left")
	_ = stuck.input.CloseWithError(left) // the keys to detach
	if err := stuck.leaves(); !errors.Is(err, left) {
		t.Errorf("a user who does not read left with %v", err)
	}
	_, _ = second.input.Write([]byte("two\n"))
	second.sees("got two\n")

	third := s.attach(t.Context(), s.near, id, func(o *client.AttachOptions) { o.Tail = 1 })
	third.isAttached()
	_, _ = third.input.Write([]byte("three\n"))
	third.sees("got three\n")
	for _, u := range []*attachedUser{third, second} {
		_ = u.input.Close()
		if err := u.leaves(); err != nil || u.job.GetState() == string(ares.Failed) {
			t.Errorf("the end is %v, %s", err, u.job.GetState())
		}
	}
	if third.seen() != "end of print2\ngot three\n" || second.seen() != "got one\ngot two\n" {
		t.Errorf("the third user has read %q, and the second one %q", third.seen(), second.seen())
	}
}

// TestAttachWithdrawn takes the right to a job away from a user who is attached to it, in several ways. The user is told, and the job and its input
// are as before for others.
func TestAttachWithdrawn(t *testing.T) {
	t.Parallel()
	s := newStage(t, cluster.Env("ARES_ISOLATION_ALLOW_UNTRUSTED=true"))
	submitter := &apipb.Binding{Role: string(ares.Submitter), TenantId: "default"}
	viewer := &apipb.Binding{Role: string(ares.Viewer), TenantId: "default"}
	for _, c := range []struct {
		name     string
		own      *apipb.Binding
		withdraw func() error
		code     ares.Code
		says     string
	}{
		{"revoked", submitter, func() error { return s.near.RevokeToken(t.Context(), "default", "revoked") }, ares.Unauthentic, "token"},
		{"unbound", viewer, func() error {
			return s.near.DeleteBinding(t.Context(), &apipb.Binding{Subject: "token:default/unbound", Role: string(ares.Submitter), TenantId: "default"})
		}, ares.Forbidden, "job.exec"},
	} {
		made, err := s.near.CreateToken(t.Context(), &apipb.CreateTokenRequest{Name: c.name, TenantId: "default", Bindings: []*apipb.Binding{c.own}})
		if err != nil {
			t.Fatal(err)
		}
		if c.own == viewer {
			if _, err = s.near.CreateBinding(t.Context(), &apipb.Binding{Subject: "token:default/" + c.name, Role: string(ares.Submitter), TenantId: "default"}); err != nil {
				t.Fatal(err)
			}
		}
		user := s.ClientWith(client.Options{Token: made.GetToken()}, s.Servers[0])
		for _, server := range s.Servers { // each of them reads new tokens at its own time
			known := s.ClientWith(client.Options{Token: made.GetToken()}, server)
			live.Await(t, cluster.Patience, "the right of the new token", func() (bool, string) {
				can, err := known.CanI(t.Context(), &apipb.CanIRequest{Verb: "job.exec", TenantId: "default"})
				return err == nil && can.GetAllowed(), fmt.Sprint(can, err)
			})
		}
		id := s.submitAs(user, &apipb.JobSpec{Name: c.name, Command: []string{"cat"}, Stdin: true})
		u := s.attach(t.Context(), user, id, nil)
		u.isAttached()
		_, _ = u.input.Write([]byte("before\n"))
		u.sees("before\n")
		if err := c.withdraw(); err != nil {
			t.Fatal(err)
		}
		if err := u.leaves(); ares.CodeOf(err) != c.code || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: the user is told %v (%s)", c.name, err, ares.CodeOf(err))
		}
		admin := s.attach(t.Context(), s.far, id, nil)
		admin.isAttached()
		_, _ = admin.input.Write([]byte("after\n"))
		_ = admin.input.Close()
		if err := admin.leaves(); err != nil || admin.job.GetState() != string(ares.Succeeded) || admin.seen() != "before\nafter\n" {
			t.Errorf("%s: then the administrator: %v, %s, %q", c.name, err, admin.job.GetState(), admin.seen())
		}
	}
}
