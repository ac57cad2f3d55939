// Package bucket opens the place where a cluster keeps its objects: a directory that all servers share, or a bucket of an S3 server.
// It has what the two do not have in common: what is durable when, who names the place first, and what is left behind by deleting.
package bucket
