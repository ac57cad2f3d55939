package client

import (
	"bytes"
	"context"
	"errors"
	"io"
	"sync"

	"github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
)

// TerminalSize is the size of a terminal in characters.
type TerminalSize struct{ Columns, Rows int }

// ExecOptions describe a command that runs beside a job.
type ExecOptions struct {
	Rank int
	Argv []string
	// Terminal is the size of the command's terminal. If it is nil, the command has none. Term is the name of the terminal's type.
	Terminal *TerminalSize
	Term     string
	// Input is the command's standard input; nil if it is empty. A read that has begun may outlast the call.
	Input io.Reader
	// Output and Errors get what the command prints. With a terminal, everything is written to Output.
	Output, Errors io.Writer
	// Started is called when the command runs. It may be nil.
	Started func()
	// Recorded is called before Started if the server records what the command prints. It may be nil.
	Recorded func()
	// Resizes and Signals are passed on to the command. They may be nil.
	Resizes <-chan TerminalSize
	Signals <-chan int
}

// ExecResult is how a command ended: with an exit code, or by a signal if Signal is not 0.
type ExecResult struct{ ExitCode, Signal int }

// Exec runs a command beside a running job, and returns when the command has ended. A command is never started twice, so the call is not
// tried again. If ctx ends, the command is ended.
func (c *Client) Exec(ctx context.Context, id string, o ExecOptions) (ExecResult, error) {
	start := &apipb.ExecStart{Argv: o.Argv, Term: o.Term}
	if o.Terminal != nil {
		start.Terminal = o.Terminal.message()
	}
	s := &session{input: o.Input, output: o.Output, errors: o.Errors, started: o.Started, recorded: o.Recorded, window: apipb.NewSendWindow()}
	s.controls = func(ctx context.Context) {
		for {
			select {
			case size := <-o.Resizes:
				s.send(&apipb.SessionInput{Input: &apipb.SessionInput_Resize{Resize: size.message()}})
			case number := <-o.Signals:
				s.send(&apipb.SessionInput{Input: &apipb.SessionInput_Signal{Signal: int32(number)}})
			case <-ctx.Done():
				return
			}
		}
	}
	end, err := s.run(ctx, c, &apipb.RunSessionRequest{
		JobId: id, Rank: int32(o.Rank), Start: &apipb.SessionStart{Action: &apipb.SessionStart_Exec{Exec: start}},
	})
	return ExecResult{int(end.GetExitCode()), int(end.GetSignal())}, err
}

func (t TerminalSize) message() *apipb.TerminalSize {
	return &apipb.TerminalSize{Columns: uint32(max(t.Columns, 1)), Rows: uint32(max(t.Rows, 1))}
}

// Forward connects to a port on which a rank of a running job listens. It copies in both directions until one side closes the connection.
func (c *Client) Forward(ctx context.Context, id string, rank, port int, conn io.ReadWriter) error {
	s := &session{input: conn, output: conn, errors: io.Discard, window: apipb.NewSendWindow()}
	_, err := s.run(ctx, c, &apipb.RunSessionRequest{
		JobId: id, Rank: int32(rank), Start: &apipb.SessionStart{Action: &apipb.SessionStart_Forward{Forward: &apipb.ForwardStart{Port: uint32(port)}}},
	})
	return err
}

// The type `session` is the user's side of a session.
type session struct {
	input          io.Reader
	output, errors io.Writer
	started        func()
	recorded       func()
	controls       func(context.Context) // sends resizes and signals until the context ends; may be nil

	stream  apipb.SessionService_RunSessionClient
	sending sync.Mutex // a gRPC stream allows only one sender at a time
	window  *apipb.SendWindow

	consumed int // bytes of output since the last confirmation; only the method `print` uses it
}

// run returns the end of the session.
func (s *session) run(ctx context.Context, c *Client, first *apipb.RunSessionRequest) (*apipb.SessionEnd, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var err error
	if s.stream, err = apipb.NewSessionServiceClient(c.Conn()).RunSession(ctx); err != nil {
		return nil, apipb.FromStatus(err)
	}
	if err = s.stream.Send(first); err != nil && !errors.Is(err, io.EOF) { // after io.EOF, the next Recv returns the error
		return nil, apipb.FromStatus(err)
	}
	for {
		m, err := s.stream.Recv()
		if err != nil {
			return nil, apipb.FromStatus(err)
		}
		switch out := m.GetOutput().GetOutput().(type) {
		case *apipb.SessionOutput_Started:
			if out.Started.GetRecorded() && s.recorded != nil {
				s.recorded()
			}
			if s.started != nil {
				s.started()
			}
			go s.sendInput(ctx)
			if s.controls != nil {
				go s.controls(ctx)
			}
		case *apipb.SessionOutput_Data:
			err = s.print(s.output, out.Data)
		case *apipb.SessionOutput_ErrorData:
			err = s.print(s.errors, out.ErrorData)
		case *apipb.SessionOutput_Consumed:
			s.window.Consumed(out.Consumed)
		case *apipb.SessionOutput_End:
			if out.End.GetError() != "" {
				return nil, ares.Errorf(ares.Code(out.End.GetErrorCode()), "%s", out.End.GetError())
			}
			return out.End, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// print writes what the command has printed, and tells the other side that it may send more.
func (s *session) print(w io.Writer, data []byte) error {
	if _, err := w.Write(data); err != nil {
		return err
	}
	if s.consumed += len(data); s.consumed >= apipb.SessionConfirm {
		s.send(&apipb.SessionInput{Input: &apipb.SessionInput_Consumed{Consumed: uint32(s.consumed)}})
		s.consumed = 0
	}
	return nil
}

// sendInput sends the input until it ends or the session ends.
func (s *session) sendInput(ctx context.Context) {
	buf := make([]byte, apipb.SessionChunk)
	for s.input != nil {
		n, err := s.input.Read(buf)
		for part := buf[:n]; len(part) > 0; {
			k, stopped := s.window.Take(ctx, len(part))
			if stopped != nil {
				return
			}
			s.send(&apipb.SessionInput{Input: &apipb.SessionInput_Data{Data: bytes.Clone(part[:k])}})
			part = part[k:]
		}
		if err != nil {
			break
		}
	}
	s.send(&apipb.SessionInput{Input: &apipb.SessionInput_End{End: true}})
}

// send sends a message. If that fails, the stream is broken, and the next Recv says why.
func (s *session) send(m *apipb.SessionInput) {
	s.sending.Lock()
	defer s.sending.Unlock()
	_ = s.stream.Send(&apipb.RunSessionRequest{Input: m})
}
