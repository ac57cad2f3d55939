// Package many tests commands that change many jobs: a command that is killed midway and repeated changes every job
// exactly once.
package many
