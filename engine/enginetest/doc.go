// Package enginetest drives an engine the way the server does, without a
// server.
//
// A Cluster is an in-memory store around an engine.State; every change is a batch of
// events. RunScript executes a script, which is a scenario in text form, and compares the
// output with the expected output. Simulate simulates agents, users and time. A Cluster
// checks the laws after every step. A Cluster can also replay the whole history into a
// second engine, which must make the same decisions.
//
// Cluster applies plans with its own code. The code of Cluster is an oracle for the server's code, so the two
// implementations must stay separate.
//
// # Scripts
//
// The scripts are in engine/testdata, one folder per subject. A script is a sequence of blocks, separated by blank
// lines. A block consists of commands, one per line, then ---- and the output of the commands. If the commands
// print nothing, the output is "ok". A line that starts with # is a comment.
//
//	node a gpus=4
//	job train gpus=2 runtime=1h
//	decide
//	----
//	train on a[0 1], score 110
//
// An argument is a word, KEY=VALUE or KEY=(VALUE, VALUE). A value that is a pair is written NAME:VALUE. A DURATION is
// written as in Go: 90s, 2h30m. J is the name of a job, and J[3] is element 3 of array J. A command that fails prints
// COMMAND: error: TEXT. The test fails if a command or key is unknown, if an expectation is not met, or if a law is
// broken. At the end of the script the cluster must reach a stable state, and a replay must make the same plans.
//
// Run the scripts with
//
//	go test ./engine -run Scripts            all
//	go test ./engine -run Scripts/quota      one folder
//	go test ./engine -run Scripts -rewrite   replace the expected output
//
// After -rewrite, commit a changed output line only if you can explain the change.
//
// # Configuration
//
// config starts the script's cluster with another configuration. The command "config" must be the
// first command of a script.
//
//	thermal-limit=CELSIUS            a hotter device gets no new work
//	thermal-margin=CELSIUS           how far below the limit cooler devices are preferred
//	max-ranks-per-node=N             how many ranks one node can have
//	ageing-step=DURATION             waiting time per point of priority
//	half-life=DURATION               how long past usage takes to count half
//	model-weights=(MODEL:N)          weights of GPU models in fair shares, in thousandths
//	placement=POLICY                 node policy: random, bestfit, dotprod, packing, clustering, fgd
//	seed=N                           seed of the policy random
//	typical-jobs=(GPUS:MILLI:CPUS:N) workload mix of the policy fgd
//	order=ORDER                      order of a queue: aged (default), expected-work, fifo, shortest, shortest-remaining, least-service, attained, edf
//	blocked=POLICY                   what jobs behind a blocked one do: skip, hold, reserve
//	attained-gpu-seconds=N           service up to which jobs come first with order=attained
//	preempt-by-order                 a waiting job may preempt later ones of its own queue and class
//	preempt-peers-after=DURATION     with order=attained: waiting time after which a job also preempts later ones of its level; 0 is never
//	overdue-after=DURATION           with order=expected-work: waiting time after which a job is overdue; 0 is never
//	overdue-share-percent=N          with order=expected-work: share of the queue's GPUs for overdue jobs
//	backfill-max-spread-percent=N    p90 of the runtimes that a reservation waits for, in percent of their medians; 0 is any
//	no-preemption                    jobs are not preempted by class or quota
//	preemption-ceiling=N             thousandths of GPUs preempted per GPU requested; 0 is no ceiling
//	max-preemptions=N                how often one job can be preempted; 0 is no limit
//	preemption-cooldown=DURATION     protection of a job that runs again after a preemption
//	restart-cost=DURATION            cost of a restart for each GPU of a job
//	max-preemptions-per-hour=N       preemptions by class per preempting tenant; 0 is no limit
//	consolidation                    jobs with checkpoints can be moved to make capacity for a waiting job
//	consolidation-gain=N             how much a move must gain, in thousandths of its cost
//	backfill-reservations=N          how many blocked jobs get a backfill reservation
//	backfill-after=DURATION          waiting time before a job gets one
//	backfill-hold-idle=N             share of GPUs that holds may leave idle, in thousandths; 0 for no holds
//	backfill-drain-after=DURATION    waiting time before free capacity is held for a job without a known start; 0 is never
//	backfill-slack=DURATION          by how much a planned start may be delayed in any case
//	backfill-slack-percent=N         by how much it may be delayed, in percent of the wait
//
// # Nodes
//
// node N adds a node with an open session.
//
//	gpus=N                   number of devices
//	cpus=N cpu-milli=N       cores, 64 by default, and thousandths of a core in addition
//	memory-mb=N              memory
//	type=TYPE                type of the devices, gpu by default
//	model=MODEL              model of the devices
//	models=(MODEL)           several models, each for an equal part of the devices
//	gpu-memory-mb=N          memory of each device
//	links=(KIND)             all devices are linked in this way: NV4, PIX, SYS
//	links=(KIND, SIZE)       groups of SIZE devices are; SYS between the groups
//	links=(dgx1)             the NVLink mesh of eight V100s
//	numa-nodes=N             NUMA nodes, with equal parts of devices, cores and memory
//	mig-slices=N             adds a 1g.10gb slice to each of the last N devices
//	temperature=CELSIUS      temperature of the devices
//	unhealthy=(I)            indexes of unhealthy devices
//	unfit=TEXT               reason why the node takes no jobs
//	trusted-only             the node takes only jobs of platform administrators
//	images                   the node runs jobs with an image
//	own-network              the node runs jobs with network=none
//	runs-container-root      the node runs jobs with container-root
//	attachable               the node runs jobs with stdin or tty
//	region= zone= spine= leaf= rack=  location labels
//	labels=(NAME:VALUE)      labels
//	taints=(NAME=VALUE:EFFECT)  taints
//	count=N                  adds N such nodes: N00, N01, …
//
// Other commands about nodes:
//
//	session end N …          the sessions end
//	session return N …       the sessions open again
//	clean-node N             the node reports that no process of an ended attempt is left
//	void-node N              voids the seats of a lost node, as the Reaper does
//	cordon N, uncordon N     sets or removes a cordon
//	temperature N I:CELSIUS …  sets temperatures of devices
//	unhealthy N I …          marks these devices unhealthy and all others healthy
//	node-score N SCORE       sets the history score of the node, 0 to 1000
//
// # Topology
//
//	topology                 changes the rules of the topology
//	    nodes-per-leaf=N     limit on the nodes of a leaf
//	    gpus-per-leaf=N      limit on the GPUs of a leaf
//	    weights=(A, B, C, D) weights of availability, alignment, utilization and history
//	domain D                 adds a domain
//	    level=LEVEL          leaf by default
//	    parent=D             the domain above
//	    adjacent=(D)         neighbouring domains
//	    switch=S             its switch class
//	    nodes=(N)            its nodes
//	switch S                 adds a switch class
//	    gbps=N               bandwidth
//	    nanos=N              latency in nanoseconds
//
// # Tenants, queues and reservations
//
//	tenant T                 writes a tenant; limits that are left out are unlimited
//	    gpus= gpu-memory-mb= cpus= memory-mb=  limits on resources in use
//	    jobs=N               limit on concurrent jobs
//	    weight=N             weight in fair shares, 1 by default
//	    gpu-hours=N          budget for a month
//	    hub-hours=N lent-minutes=N   budget at the hub, and how much of it the hub lends
//	    quota=(MODEL:NOMINAL:BORROW:LEND)  quotas; "all" is every model, "any" is unlimited;
//	                         by default nothing is borrowed and everything is lent
//	    preempt              its jobs may preempt by class
//	queue T/Q                writes a queue, with the limits, weight= and quota= of a tenant
//	    parent=Q             the queue above
//	archived-usage T/Q       sets the usage of the queue's archived jobs
//	    gpu-hours=N          GPU-hours until now
//	reservation R            writes an administrator's reservation
//	    tenant=T queue=Q     who can use it; maintenance if left out
//	    in=DURATION          starts so much later, now by default
//	    for=DURATION         lasts so long, 1h by default
//	    nodes=(N) selector=(NAME:VALUE) domain=D  its nodes
//	    drain                stops the jobs of others that still run there when it starts
//	    force                with drain: also at_most_once jobs that have begun; they end as lost
//	delete KIND NAME         deletes a record, such as: delete reservation R
//
// # Jobs
//
// job J submits a job.
//
//	tenant=T queue=Q         its tenant and queue
//	labels=(NAME:VALUE)      its labels
//	members=N                members of the gang, 1 by default
//	min-members=N            members with which an elastic gang can start
//	no-gang                  the job starts with as many members as fit
//	gpus=N                   GPUs per member
//	gpu-milli=N              thousandths of one GPU instead
//	mig-profile=PROFILE      a MIG slice instead
//	gpu-memory-mb=N          GPU memory per member, over all its devices
//	cpus=N memory-mb=N       cores and memory per member
//	cpu-milli=N              thousandths of a core in addition to cpus=
//	model=MODEL type=TYPE    model and type of the devices
//	numa-policy=POLICY       NUMA policy
//	priority=N               priority, which decides the class
//	array=N parallelism=N    elements of an array, and how many run at once
//	after=(J)                jobs that must succeed before
//	hold                     the job waits until it is released with unhold
//	begin=DURATION           earliest start, from now
//	dependency=(TYPE:J)      dependencies, such as afterok:J, aftercorr:J and singleton
//	unmet=wait               the job is not cancelled when a dependency can never be met
//	name=NAME                name, J by default
//	deadline=DURATION        deadline, from now
//	max-runtime-minutes=N    limit on the runtime
//	max-queue-minutes=N      limit on the waiting time
//	mode=MODE                restart or at_most_once
//	max-retries=N            retries after failures
//	backoff-seconds=N        delay before the first retry, 10 by default
//	grace-seconds=N          grace period of a stop
//	checkpoint               the job keeps its progress when it is stopped
//	selector=(NAME:VALUE)    labels that a node must have
//	node-requirements=(REQ)  requirements on nodes and devices, such as gpu.memory>=80G
//	node-affinity=(COND)     conditions on a node's labels that must hold
//	preferred-node-affinity=(COND)  conditions that should hold
//	affinity=(NAME=VALUE@LEVEL)     only near running jobs of the tenant with this label
//	anti-affinity=(NAME=VALUE@LEVEL)  not near them
//	preferred-anti-affinity=(NAME=VALUE@LEVEL)  near as few of them as possible
//	tolerations=(TAINT)      taints that it tolerates
//	regions=(R)              allowed regions
//	required-level=LEVEL     all members in one domain of this level
//	preferred-level=LEVEL    in one of this level if possible
//	preferred-domain=D       in this domain if possible
//	strategy=STRATEGY        topology strategy
//	bandwidth=TEXT           required network bandwidth
//	trusted                  a platform administrator submitted it
//	image=NAME               it runs in an image
//	network=none             it must not reach the network
//	container-root           it is root in its image
//	stdin, tty               users can write to it
//	latency-sensitive        whole devices of one NUMA node, and preempted by critical jobs only
//	allow-mixed-models       its members may have devices of different models
//	preemptible              a much shorter job of its queue and class may preempt it; so does checkpoint
//	not-preemptible          no job of its queue and class preempts it, even with checkpoint
//	runtime=DURATION         how long it runs in simulate; forever if left out
//	count=N                  submits N such jobs: J000, J001, …
//
// Other commands of users:
//
//	estimate J               sets the runtime estimate of a job
//	    p50=DURATION p90=DURATION  its median and p90; p90 is p50 if left out
//	    doubt=PERCENT        how little recent forecasts told short jobs from long ones
//	    samples=N            how many runs it is based on, 1 by default
//	protect J                protects a job from preemption; delete protection J ends it
//	    why=(REASON)         the reason
//	cancel J, preempt J, drain J  asks the job to stop for this reason
//	hold J, unhold J         holds a waiting job, and releases it
//	update J                 changes a waiting job
//	    priority=N max-runtime-minutes=N  its priority and its time limit
//
// # Reports of agents
//
// Each of these commands applies to the last attempt of the job and to all its ranks, unless attempt=N or rank=N is
// given.
//
//	claim J                  the ranks claim their seats
//	finish J                 the ranks end
//	    exit=N               exit code, 0 by default
//	    outcome=OUTCOME      outcome, by default that of the exit code
//	release J                the ranks release their seats
//	decline J                the ranks decline their seats
//	checkpoint J             the job has saved its progress; takes no attempt= and rank=
//
// # Time and decisions
//
//	advance DURATION         moves the clock
//	decide                   makes one decision, commits it and prints it
//	decide-until-stable      decides until nothing changes
//	archive J                archives a finished job
//	change-leader            continues with a new state made from the records, which must decide alike
//	simulate DURATION        simulates agents, users and time: agents claim and release seats, jobs
//	                         end after their runtime, and each event is printed
//	    grace=DURATION       how long a stopped job takes to end, 10s by default
//	    print-jobs=(J)       prints the events of these jobs only
//	    quiet                prints no events
//	arrivals NAME            submits a job periodically during simulate: NAME000, NAME001, …
//	    every=DURATION       interval, 1m by default
//	    runtime=DURATION     how long each runs, 1m by default; and the keys of a job, except
//	                         deadline= and count=
//	arrivals end NAME        ends them
//
// # Questions
//
//	show J                   phase and attempts of a job
//	explain J                blockers, remedies, queue position and ETA of a waiting job
//	what-if J                what would happen to a job if it were submitted now, with the keys of a
//	                         job, except deadline=, count= and runtime=
//	placement-score J        score of a job's last placement
//	tenant-usage T           resources that a tenant uses now
//	fairness                 shares of tenants and queues, in millionths
//	preemptions              all preemptions so far
//	planned-starts           planned starts of the last decision
//	consolidate              moves that are worthwhile now, with gain and cost
//
// # Expectations
//
// If an expectation is not met, the test fails, even with -rewrite.
//
//	expect no-preemptions          no job was preempted
//	expect preemptions J …         these jobs were preempted, each once, and no others
//	expect preempted-at-most-once  no job was preempted twice
//	expect started J … within=DURATION  each started so soon after it was accepted
//	expect PHASE J …               each is in this phase: pending, running, succeeded, …
package enginetest
