package service

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/ares-scheduler/ares/api/pipeline"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/asciicast"
	"github.com/ares-scheduler/ares/audit"
	"github.com/ares-scheduler/ares/control/sessionrecording"
)

// A sessionRoute is how the data of a session gets to its node. Only the server to which the node is connected records a session, so each
// session is recorded once.
type sessionRoute struct {
	node *bulk // nil if the node is connected to another server
	// info describes the recording. It is nil if this server does not record the session.
	info      *sessionrecording.Info
	recording *sessionrecording.Recording // nil until it has begun
	isStarted atomic.Bool
}

// The method `route` finds the way to the node of a session, and decides whether the session is recorded. Only commands are: what an
// attached user sees is the job's output, which is in its log.
func (s *Sessions) route(ctx context.Context, to sessionTarget, first *apipb.RunSessionRequest) *sessionRoute {
	r := &sessionRoute{node: s.Files.connected(to.node)}
	start := first.GetStart()
	if r.node == nil || start.GetExec() == nil || !s.Recorder.Wants(start.GetExec().GetTerminal() != nil) {
		return r
	}
	now := s.Recorder.Now()
	r.info = &sessionrecording.Info{
		ID: sessionrecording.NewID(now), Tenant: to.tenant, Job: string(to.job), JobName: to.name, Rank: int(first.GetRank()), Node: to.node, Began: now,
		User: pipeline.CallerName(ctx), Outside: pipeline.IsOutsider(pipeline.IdentityOf(ctx), to.tenant),
	}
	return r
}

// The method `describe` adds the recording to the description of a session.
func (r *sessionRoute) describe(session string) string {
	if r.info == nil {
		return session
	}
	return session + ", recording " + r.info.ID
}

// The method `record` begins the recording of a session before anything else begins.
func (r *sessionRoute) record(ctx context.Context, by *sessionrecording.Recorder, start *apipb.SessionStart, user sessionUser) (sessionUser, error) {
	if r.info == nil {
		return user, nil
	}
	h := asciicast.Header{Width: 80, Height: 24, Title: fmt.Sprintf("job %s, rank %d", r.info.JobName, r.info.Rank)}
	if exec := start.GetExec(); exec != nil {
		h.Command = quoted(exec.GetArgv())
		if t := exec.GetTerminal(); t != nil {
			h.Width, h.Height = int(t.GetColumns()), int(t.GetRows())
		}
		if exec.GetTerm() != "" {
			h.Env = map[string]string{"TERM": exec.GetTerm()}
		}
	}
	var err error
	if r.recording, err = by.Begin(ctx, *r.info, h); err != nil {
		return nil, err
	}
	return &recordedUser{user, r}, nil
}

// The method `finish` ends the recording. It returns what the audit log says about it.
func (r *sessionRoute) finish(result string) string {
	switch {
	case r.recording == nil:
		return ""
	case !r.isStarted.Load():
		r.recording.Discard()
		return "; nothing was recorded"
	}
	if missing := r.recording.End(result); missing != "" {
		return fmt.Sprintf("; recording %s is incomplete: %s", r.info.ID, missing)
	}
	return ""
}

// A recordedUser is the user's side of a session that is recorded. It records what the user sees, and not what the user types.
type recordedUser struct {
	sessionUser
	route *sessionRoute
}

func (u *recordedUser) Send(m *apipb.RunSessionResponse) error {
	switch out := m.GetOutput().GetOutput().(type) {
	case *apipb.SessionOutput_Started:
		u.route.isStarted.Store(true)
		out.Started = &apipb.SessionStarted{Recorded: true}
	case *apipb.SessionOutput_Data:
		u.route.recording.Print(sessionrecording.Output, out.Data)
	case *apipb.SessionOutput_ErrorData:
		u.route.recording.Print(sessionrecording.Errors, out.ErrorData)
	}
	return u.sessionUser.Send(m)
}

func (u *recordedUser) Recv() (*apipb.RunSessionRequest, error) {
	m, err := u.sessionUser.Recv()
	if size := m.GetInput().GetResize(); size != nil {
		u.route.recording.Resize(int(size.GetColumns()), int(size.GetRows()))
	}
	return m, err
}

// The function `quoted` writes a command as one would type it in a shell.
func quoted(argv []string) string {
	out := make([]string, len(argv))
	for i, a := range argv {
		if out[i] = a; a == "" || strings.ContainsAny(a, " \t\r\n'\"\\$`&|;<>()*?[]{}#~!") {
			out[i] = "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
		}
	}
	return strings.Join(out, " ")
}

type sessionRecordingService struct {
	apipb.UnimplementedSessionRecordingServiceServer
	*Services
}

func (d *sessionRecordingService) recorder() *sessionrecording.Recorder {
	if d.Cfg.Sessions == nil {
		return nil
	}
	return d.Cfg.Sessions.Recorder
}

// defaultRecordings is the number of recordings on a page if the request does not say.
const defaultRecordings = 100

// ListSessionRecordings implements apipb.SessionRecordingServiceServer.
func (d *sessionRecordingService) ListSessionRecordings(ctx context.Context, req *apipb.ListSessionRecordingsRequest) (*apipb.ListSessionRecordingsResponse, error) {
	q := sessionrecording.Query{Tenant: pipeline.CallOf(ctx).Tenant, Job: req.GetJob(), User: req.GetUser(), Before: req.GetPageToken(), Limit: int(req.GetPageSize())}
	if q.Limit <= 0 {
		q.Limit = defaultRecordings
	}
	if req.GetSince() != nil {
		q.Since = req.GetSince().AsTime()
	}
	// A reader of one tenant must not find out by a search which administrators of the platform have had sessions in it.
	q.Unnamed = auditedBy(pipeline.IdentityOf(ctx)) != nil
	list, next, err := d.recorder().List(ctx, q)
	if err != nil {
		return nil, err
	}
	resp := &apipb.ListSessionRecordingsResponse{NextPageToken: next}
	for i := range list {
		resp.Recordings = append(resp.Recordings, recordingMessage(&list[i], q.Unnamed))
	}
	return resp, nil
}

func recordingMessage(i *sessionrecording.Info, isUnnamed bool) *apipb.SessionRecording {
	m := &apipb.SessionRecording{
		RecordingId: i.ID, TenantId: i.Tenant, JobId: i.Job, JobName: i.JobName, Rank: int32(i.Rank), NodeId: i.Node, User: i.User,
		BeganAt: timestamppb.New(i.Began), Result: i.Result, Bytes: i.Bytes, MissingBytes: i.Missing,
	}
	if i.Outside && isUnnamed {
		m.User = audit.Outsider
	}
	if !i.Ended.IsZero() {
		m.EndedAt = timestamppb.New(i.Ended)
	}
	return m
}

// GetSessionRecording implements apipb.SessionRecordingServiceServer.
func (d *sessionRecordingService) GetSessionRecording(req *apipb.GetSessionRecordingRequest, stream grpc.ServerStreamingServer[apipb.GetSessionRecordingResponse]) error {
	ctx := stream.Context()
	info, err := d.recorder().Find(ctx, pipeline.CallOf(ctx).Tenant, req.GetRecordingId())
	if err != nil {
		return err
	}
	if err = d.AuditBegin(ctx, "read the recording of a session with job "+info.Job); err != nil {
		return err
	}
	return d.recorder().Read(ctx, info, func(part []byte) error {
		for len(part) > 0 {
			n := min(len(part), chunkBytes)
			if err := stream.Send(&apipb.GetSessionRecordingResponse{Data: part[:n]}); err != nil {
				return err
			}
			part = part[n:]
		}
		return nil
	})
}
