package agent

import (
	"bytes"
	"context"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/agent/run"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/pause"
)

// secretTries is how often an agent asks for the secrets of a seat. In between it pauses, so that it asks for about seven
// seconds. Another server may then answer.
const secretTries = 6

// fetchSecrets asks a server for the secrets of the seat's job. The seat is claimed already. The values stay in memory.
func (s *seat) fetchSecrets(ctx context.Context) ([]run.Secret, error) {
	if len(s.order.GetSpec().GetSecrets()) == 0 {
		return nil, nil
	}
	var answer *apipb.FetchSecretsResponse
	for try, wait := 1, 200*time.Millisecond; ; try, wait = try+1, 2*wait {
		err := s.call(ctx, func(ctx context.Context, c apipb.AgentServiceClient, ref *apipb.SessionRef) (err error) {
			answer, err = c.FetchSecrets(ctx, &apipb.FetchSecretsRequest{Ref: ref, Seat: refOf(s.key)})
			return err
		})
		if err == nil {
			break
		}
		code := ares.CodeOf(err)
		if mayPass := code == ares.Unavailable || code == ares.Exhausted || code == ares.Internal; !mayPass || try == secretTries || !pause.For(ctx, wait) {
			return nil, err
		}
	}
	out := make([]run.Secret, 0, len(answer.GetSecrets()))
	for _, x := range answer.GetSecrets() {
		if x.GetEnv() != "" && bytes.IndexByte(x.GetValue(), 0) >= 0 {
			// The job is at fault. If the start failed because of this, the node would be.
			return nil, ares.Errorf(ares.Invalid, "the secret for variable %s contains a NUL byte, which no variable can have: use a file instead", x.GetEnv())
		}
		out = append(out, run.Secret{Env: x.GetEnv(), File: x.GetFile(), Value: string(x.GetValue())})
	}
	return out, nil
}

// withoutSecrets ends a seat whose secrets the agent did not get. A deleted secret is the job's own failure. If no server
// can decrypt a secret, the job is tried again, as after the loss of a node.
func (s *seat) withoutSecrets(ctx context.Context, err error) error {
	switch code := ares.CodeOf(err); {
	case ctx.Err() != nil || code == ares.Fenced:
		return err // the agent stops, or the claim is no longer valid
	case code == ares.NotFound || code == ares.Invalid:
		s.end(run.Result{Outcome: run.SpawnError, Reason: err.Error(), Ended: time.Now()})
	default:
		s.end(run.Result{Outcome: run.Lost, Reason: "the job's secrets could not be read: " + err.Error(), Ended: time.Now()})
	}
	return nil
}
