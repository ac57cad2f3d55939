// Package migrations holds the migrations of history's tables for each database. Package history applies these
// migrations, and its tests also revert them.
package migrations

import "embed"

// Files contains one directory of migrations for each database.
//
//go:embed postgres sqlite
var Files embed.FS
