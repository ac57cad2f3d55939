//go:build linux

// Package image is a node's store of OCI images. It fetches images from registries and archives, unpacks each layer once, keeps the
// layers for later jobs, and removes the least recently used ones when the disk becomes full.
//
// Everything in an image is written by strangers. So the agent itself reads only the manifest and the configuration, with limits on their
// size. A child process without rights unpacks the layers; see the function RunUnpacker. The digest of everything is compared with what
// names it before it is used.
package image
