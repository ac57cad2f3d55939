package ares

import "time"

// RoundRuntime rounds a predicted runtime up. A prediction follows from the runs of all tenants, so an exact value would tell
// one tenant how long another tenant's run took. Up to a minute the grid is ten seconds, because most jobs of a test suite are
// that short. A rounded value stays the same when it is rounded again.
func RoundRuntime(d time.Duration) time.Duration {
	grid := time.Hour
	switch {
	case d <= time.Minute:
		grid = 10 * time.Second
	case d < time.Hour:
		grid = time.Minute
	case d < 6*time.Hour:
		grid = 5 * time.Minute
	case d < 24*time.Hour:
		grid = 15 * time.Minute
	}
	return (d + grid - 1).Truncate(grid)
}
