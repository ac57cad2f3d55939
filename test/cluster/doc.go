// Package cluster is the harness for tests that need real processes. The package
// starts etcd, servers and agents on this machine. A test can kill, freeze and
// restart each process and read its log.
//
//	c := cluster.Start(t, cluster.Etcd(1), cluster.Servers(2), cluster.Agents(4))
//	c.Servers[0].Kill()
//
// Every process has the cluster's directory in its command line or environment.
// The harness uses the directory to find all processes. Therefore no process
// survives the test, not even an orphaned job. The package starts Ares, but
// leaves all checks to the test suites.
package cluster
