// Package features compares the feature table with the repository. Every test
// that docs/reference/features.md names must exist.
package features
