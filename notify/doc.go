// Package notify sends alerts through webhooks and mail, in the background.
//
// If an alert is repeated within the configured time window, the repetition is counted and not
// sent. Each channel has its own bounded queue, rate limit and retries, so a channel that does not
// answer delays neither the caller nor other channels. The address of a channel is a secret and
// never appears in an error or a log line.
package notify
