// Package features holds the table of features to the tree: what docs/features.md
// says is tested must be tested there.
package features
