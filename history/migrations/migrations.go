// Package migrations is how history's tables came to be, step by step, for each
// of the databases. History takes the steps, and its suite takes them back.
package migrations

import "embed"

// Files has a folder for each database.
//
//go:embed postgres sqlite
var Files embed.FS
