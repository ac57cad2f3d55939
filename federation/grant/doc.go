// Package grant holds the rules by which a hub and its member clusters decide who may start a job. The rules are pure:
// they read records and messages, and return what to write and what to answer. Package federation writes it, each step as
// one transaction of its store. The models in test/model/federation search the same rules; a rule here has the name that
// the model uses.
//
// A grant is the hub's record of a job that is offered or bound. Its epoch is a number that grows with every new grant of
// any job. A cluster may start a job only while the grant is bound to this cluster and its incarnation, which is one life
// of the cluster's store, from its start or its last restore to the next restore.
package grant
