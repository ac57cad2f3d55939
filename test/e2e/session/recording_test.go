package session

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/asciicast"
	"github.com/ares-scheduler/ares/client"
	"github.com/ares-scheduler/ares/test/cluster"
	"github.com/ares-scheduler/ares/test/live"
)

// TestRecordingOfAKilledServer kills the server that records a session. The recording has everything but the last seconds, in order, and
// another server reads it. The session goes through a server that does not record it.
func TestRecordingOfAKilledServer(t *testing.T) {
	t.Parallel()
	s := &stage{t: t, Cluster: cluster.Start(t, cluster.Etcd(1), cluster.Servers(2),
		cluster.Env("ARES_SESSION_RECORDING_RECORD=all", "ARES_OBJECTS_DIR="+filepath.Join(t.TempDir(), "objects")))}
	s.far, s.near = s.Client(s.Servers[0]), s.Client(s.Servers[1])
	s.agent = s.StartAgent("node-1", s.Servers[1])
	s.AwaitOnline("node-1")
	id := s.runs("job", nil, "sleep", "1000")

	out, output := io.Pipe()
	ended := make(chan error, 1)
	told := make(chan struct{}, 1)
	go func() {
		_, err := s.far.Exec(t.Context(), id, client.ExecOptions{
			Argv: []string{"sh", "-c", "i=0; while :; do i=$((i+1)); echo $i; sleep 0.1; done"}, Output: output, Errors: io.Discard, Recorded: func() { told <- struct{}{} },
		})
		_ = output.CloseWithError(io.EOF)
		ended <- err
	}()
	// The line 50 is printed at least 10 seconds before the line 150, and a recording is stored every 5 seconds.
	in := bufio.NewScanner(out)
	for line := 1; line <= 150; line++ {
		if !in.Scan() || in.Text() != strconv.Itoa(line) {
			t.Fatalf("line %d is %q, and the session ended with %v", line, in.Text(), <-ended)
		}
	}
	select {
	case <-told:
	default:
		t.Error("the user was not told that the session is recorded")
	}
	s.Servers[1].Kill()
	go func() { _, _ = io.Copy(io.Discard, out) }()
	if err := <-ended; err == nil {
		t.Error("the user is not told of the death of the server")
	}
	var list []*apipb.SessionRecording
	live.Await(t, cluster.Patience, "the recording", func() (bool, string) {
		list = nil
		err := s.far.SessionRecordings(t.Context(), &apipb.ListSessionRecordingsRequest{Job: id}, func(page []*apipb.SessionRecording) bool {
			list = append(list, page...)
			return true
		})
		return len(list) == 1, fmt.Sprint(list, err)
	})
	if list[0].GetEndedAt() != nil || list[0].GetBytes() == 0 {
		t.Errorf("listed %v", list[0])
	}
	var data bytes.Buffer
	if err := s.far.SessionRecording(t.Context(), "", list[0].GetRecordingId(), &data); err != nil {
		t.Fatal(err)
	}
	shown := replay(t, &data)
	lines := strings.Split(strings.TrimSuffix(shown, "\n"), "\n")
	for i, line := range lines {
		if line != strconv.Itoa(i+1) {
			t.Fatalf("line %d of the recording is %q", i+1, line)
		}
	}
	if len(lines) < 50 {
		t.Errorf("the recording ends with line %d", len(lines))
	}
	s.Servers[1].Start()
	s.Servers[1].AwaitReady()
	s.AwaitOnline("node-1")

	// Copies are recorded too, and their users are told.
	file := filepath.Join(s.Dir, "copied")
	if err := os.WriteFile(file, []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	live.Await(t, cluster.Patience, "a copy that is recorded", func() (bool, string) {
		isTold := false
		o := client.CopyOptions{Skipped: func(string, string) {}, Recorded: func() { isTold = true }}
		err := s.far.CopyFrom(t.Context(), id, file, t.TempDir(), o)
		return err == nil && isTold, fmt.Sprint(isTold, err)
	})
}

// The function `replay` returns what a recording shows.
func replay(t *testing.T, recording io.Reader) (shown string) {
	t.Helper()
	d, err := asciicast.NewDecoder(recording)
	if err != nil {
		t.Fatal(err)
	}
	for {
		e, err := d.Next()
		if errors.Is(err, io.EOF) {
			return shown
		}
		if err != nil {
			t.Fatal(err)
		}
		shown += e.Data
	}
}
