// Package images runs jobs in images, from a registry in the test to the output of a container, with the real programs.
package images
