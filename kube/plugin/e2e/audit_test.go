package e2e

import (
	"os"
	"path/filepath"
)

// auditPolicy makes the API server log which requests the scheduler sends.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
rules:
- level: Metadata
  users: ["system:serviceaccount:kube-system:topology-scheduler"]
- level: None
`

// auditLog is the path of the API server's audit log.
var auditLog string

// auditFlags writes the audit policy and returns the flags of the API server for it.
func auditFlags(dir string) ([]string, error) {
	policy := filepath.Join(dir, "audit-policy.yaml")
	auditLog = filepath.Join(dir, "audit.log")
	return []string{"--audit-policy-file=" + policy, "--audit-log-path=" + auditLog}, os.WriteFile(policy, []byte(auditPolicy), 0o600)
}
