package server

import "github.com/ares-scheduler/ares/agent"

// IsolationConfig is how jobs are set apart on a node, where this file is an
// agent's or that of ares up.
type IsolationConfig = agent.Isolation
