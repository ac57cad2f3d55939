package server

import "github.com/ares-scheduler/ares/agent"

// IsolationConfig configures the isolation of jobs on a node. Only ares agent and ares up read it.
type IsolationConfig = agent.Isolation

// ImagesConfig configures jobs that run in an image. Only ares agent and ares up read it.
type ImagesConfig = agent.Images
