package api

import (
	"errors"
	"io"
	"strings"
	"testing"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/api/service"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/control/sessionrecording"
)

// TestRecordedSession records a session at the server to which the node is connected. The user is told, the audit log names the recording,
// and what the user types is not in it.
func TestRecordedSession(t *testing.T) {
	r := newRecordings(t)
	s := newSessionStage(t, func(x *service.Sessions) { x.Recorder = r })
	r.Mode = sessionrecording.Terminal
	s.l.take()
	tell := func(agent apipb.AgentService_JoinSessionClient, out *apipb.SessionOutput) {
		must(t, agent.Send(&apipb.JoinSessionRequest{Output: out}))
	}
	start := &apipb.SessionStart{Action: &apipb.SessionStart_Exec{Exec: &apipb.ExecStart{
		Argv: []string{"sh", "-c", "echo it's"}, Terminal: &apipb.TerminalSize{Columns: 90, Rows: 30}, Term: "xterm",
	}}}
	user := s.begin(t.Context(), s.alice, &apipb.RunSessionRequest{JobId: s.id, Start: start})
	offer := s.offer()
	agent, _, err := s.join(s.own, offer.GetSeat(), offer.GetTicket())
	must(t, err)
	tell(agent, &apipb.SessionOutput{Output: &apipb.SessionOutput_Started{Started: &apipb.SessionStarted{}}})
	m, err := user.Recv()
	must(t, err)
	if !m.GetOutput().GetStarted().GetRecorded() {
		t.Error("the user is not told of the recording")
	}
	begin := s.l.one(t, "the begin of the session")
	id, ok := strings.CutPrefix(begin.Detail, "begin of exec in rank 0, recording ")
	if !ok {
		t.Fatalf("the audit log does not name the recording: %q", begin.Detail)
	}
	must(t, user.Send(&apipb.RunSessionRequest{Input: &apipb.SessionInput{Input: &apipb.SessionInput_Data{Data: []byte("a password")}}}))
	must(t, user.Send(&apipb.RunSessionRequest{Input: &apipb.SessionInput{Input: &apipb.SessionInput_Resize{Resize: &apipb.TerminalSize{Columns: 100, Rows: 40}}}}))
	for range 2 {
		_, err = agent.Recv()
		must(t, err)
	}
	tell(agent, &apipb.SessionOutput{Output: &apipb.SessionOutput_Data{Data: []byte("caf\xc3")}})
	tell(agent, &apipb.SessionOutput{Output: &apipb.SessionOutput_Data{Data: []byte("\xa9\r\n")}})
	tell(agent, &apipb.SessionOutput{Output: &apipb.SessionOutput_End{End: &apipb.SessionEnd{ExitCode: 7}}})
	for range 3 {
		_, err = user.Recv()
		must(t, err)
	}
	if _, err = user.Recv(); !errors.Is(err, io.EOF) {
		t.Error(err)
	}
	s.awaitEnd()
	boss, eve := s.user("boss", ares.TenantAdmin), s.user("eve", ares.Submitter)
	recordings := apipb.NewSessionRecordingServiceClient(s.conn)
	list, err := recordings.ListSessionRecordings(as(t.Context(), boss), &apipb.ListSessionRecordingsRequest{Job: s.id})
	must(t, err)
	if len(list.GetRecordings()) != 1 {
		t.Fatalf("listed %v", list)
	}
	one := list.GetRecordings()[0]
	if one.GetRecordingId() != id || one.GetUser() != "token:a/alice" || one.GetResult() != "exit code 7" || one.GetTenantId() != "a" || one.GetNodeId() != s.own.ID || one.GetEndedAt() == nil {
		t.Errorf("listed %v", one)
	}
	get := func(token string) (string, error) {
		stream, err := recordings.GetSessionRecording(as(t.Context(), token), &apipb.GetSessionRecordingRequest{RecordingId: id})
		must(t, err)
		all := ""
		for {
			part, err := stream.Recv()
			if errors.Is(err, io.EOF) {
				return all, nil
			}
			if err != nil {
				return "", apipb.FromStatus(err)
			}
			all += string(part.GetData())
		}
	}
	s.l.take()
	all, err := get(boss)
	must(t, err)
	lines := strings.Split(all, "\n")
	if len(lines) != 5 || !strings.Contains(lines[0], `"width":90,"height":30`) || !strings.Contains(lines[0], `"command":"sh -c 'echo it'\\''s'"`) ||
		!strings.HasSuffix(lines[1], `"r", "100x40"]`) || !strings.HasSuffix(lines[2], `"o", "caf"]`) || !strings.HasSuffix(lines[3], `"o", "é\r\n"]`) || strings.Contains(all, "password") {
		t.Errorf("recorded\n%s", all)
	}
	if read := s.l.one(t, "the reading of the recording"); read.Action != "GET_SESSION_RECORDING" || read.Object != "session/"+id || read.Tenant != "a" || read.User != "token:a/boss" {
		t.Errorf("recorded %+v", read)
	}
	for _, token := range []string{s.alice, eve} {
		_, err = get(token)
		s.wants("a submitter reads a recording", err, ares.Forbidden)
	}
}
