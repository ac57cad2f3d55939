// Package choose measures how long a hub needs to choose clusters for its waiting jobs: package federation/choose with
// 100 clusters of 100 nodes and 10,000 waiting jobs.
package choose
