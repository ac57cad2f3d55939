// Package hostile attacks a real server the way another tenant, a stray node or
// somebody on the network would, in a table of attempts, and looks for planted
// secrets in everything that Ares writes or says. Every attempt must be refused,
// tell nothing, change nothing, and be in the audit.
package hostile
