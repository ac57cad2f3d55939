// Package federation tests a hub and its clusters with real processes: servers, agents and the commands that
// docs/guide/federation.md tells an administrator to type.
package federation
