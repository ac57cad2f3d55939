package pipeline

import (
	"context"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/api/method"
	"github.com/ares-scheduler/ares/apipb"
)

func fromAgent(m *method.Method) bool { return m.Scope == method.NodeScope }

// checkAgent checks each call of an agent, after Authorize has checked that the agent acts for its own node. It counts the
// call against the node's rate. It rejects a call that names no session, and a call that should name a rank but does not.
// The store compares session, node and fence with its records, in the transaction of the report.
func (d *Pipeline) checkAgent(ctx context.Context, c *Call, req any) error {
	opening, isOpening := req.(*apipb.OpenSessionRequest)
	under, hasSession := req.(interface{ GetRef() *apipb.SessionRef })
	node := opening.GetNode().GetNodeId()
	if hasSession {
		node = under.GetRef().GetNodeId()
	}
	if err := d.Limiters.nodeRates.Spend(ctx, nodeBucket(c.Method.Name, node)); err != nil {
		return err
	}
	switch {
	case isOpening:
		return nil
	case !hasSession || under.GetRef().GetSession() <= 0:
		return ares.Errorf(ares.Fenced, "ref.session: must be the number of a session of node %s, got %d: open a session first",
			ares.Clip(node), under.GetRef().GetSession()).At("ref.session")
	}
	if of, ok := req.(interface{ GetSeat() *apipb.SeatRef }); ok && of.GetSeat() == nil {
		return ares.Errorf(ares.Invalid, "seat: must name the rank that the report is about").At("seat")
	}
	return nil
}

// nodeBucket returns the name under which the calls of a node are counted. Renewals are counted apart, so that a node with many
// reports does not lose its session. So are the calls that jobs cause whenever they like: they must not delay the reports of other jobs.
func nodeBucket(name, node string) string {
	switch name {
	case apipb.AgentService_RenewSession_FullMethodName:
		return "node " + ares.Clip(node) + " (renewals)"
	case apipb.AgentService_RunRankSession_FullMethodName, apipb.AgentService_ListRanks_FullMethodName, apipb.AgentService_JoinSession_FullMethodName:
		return "node " + ares.Clip(node) + " (sessions)"
	}
	return "node " + ares.Clip(node)
}
