// Package notify tells people: it sends alerts through channels, webhooks and
// mail, in the background.
//
// An alert that is told again within a while is counted, not sent. Each channel
// has a queue of its own with an end, a rate and its own retries, so that one
// that does not answer holds up nobody: neither the caller nor other channels.
// Where a channel leads is a secret, and in no error and no log line.
package notify
