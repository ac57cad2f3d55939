/*
 * The Loop and the Reaper of two servers. Server 0 leads first; when server 1
 * takes over, 0 goes on as if nothing had happened until a write is refused.
 *
 * A watch lags: a decision is made on the state of some moment and committed at
 * a later one. So it is enough to decide on the present state and to commit at
 * any time after.
 */
bool leads[2];				/* believes to lead */

/* A plan that was decided and not committed: job + 1, and a node per rank. */
byte plan_job[2], plan_node0[2], plan_node1[2];
bool plan_run_same[2];			/* the job's run is as it was when decided */
bool plan_sequence_same[2];		/* no plan was committed since */

/* A commit whose answer never came: it may be applied at any later time. */
byte late_plan_job, late_plan_node0, late_plan_node1, late_plan_leader;
bool late_plan_run_same, late_plan_sequence_same;

/* Reaper.gone: 0 without a timer, else 1 + the ticks since the session was seen
 * to be gone. timer_same: the node's record is as it was then (R3). */
#define TIMER(i, n) ((i) * NODES + (n))
byte timer[2 * NODES];
bool timer_same[2 * NODES];

/* Rule 10: every write of a leader compares leadership and the plan sequence. */
#ifdef NO_LEADER
#define is_leader(i) true
#else
#define is_leader(i) (holder == i)
#endif
#ifdef NO_PLANSEQ
#define in_sequence(same) true
#else
#define in_sequence(same) (same)
#endif
#ifdef NO_RUN_COMPARE
#define unchanged(same) true
#else
#define unchanged(same) (same)
#endif

/* Run.Place: an earlier attempt holds nothing that may live (R2). */
#ifdef NO_R2
#define may_be_placed(j) (phase[j] == Pending)
#else
#define may_be_placed(j) (phase[j] == Pending && stop[j] == NoStop && unsettled[j] == 0)
#endif

/* engine.node.open, and the device is nobody's. */
#define has_room(n) (session[n] && seat_on[n] == 0)

inline decide(i, j, n0, n1) {
	plan_job[i] = j + 1; plan_node0[i] = n0; plan_node1[i] = n1;
	plan_run_same[i] = true; plan_sequence_same[i] = true
}

inline forget_plan(i) {
	plan_job[i] = 0; plan_node0[i] = 0; plan_node1[i] = 0;
	plan_run_same[i] = false; plan_sequence_same[i] = false
}

inline forget_late_plan() {
	late_plan_job = 0; late_plan_node0 = 0; late_plan_node1 = 0; late_plan_leader = 0;
	late_plan_run_same = false; late_plan_sequence_same = false
}

/* Reaper.look: a timer for a node without a session, none for one that is back;
 * a record that changed in between starts it anew. */
#define look_starts(i, n) (!session[n] && (timer[TIMER(i, n)] == 0 || !timer_same[TIMER(i, n)]))
#define look_drops(i, n)  (session[n] && timer[TIMER(i, n)] > 0)

/* Reaper.reap: the session has been away for lost_after − TTL, or for all of
 * lost_after if it was cut. */
#ifdef NO_R3
#define same_record(i, n) true
#else
#define same_record(i, n) timer_same[TIMER(i, n)]
#endif
#define may_void(i, n) (timer[TIMER(i, n)] > patience(n) && is_leader(i) && !session[n] && same_record(i, n) \
	&& seat_on[n] > 0 && !settled(seat[seat_on[n] - 1]))

#define REAPER(n) \
	:: d_step { leads[i] && look_starts(i, n) -> printf("leader %d: node %d has no session, timer starts\n", i, n); timer[TIMER(i, n)] = 1; timer_same[TIMER(i, n)] = true } \
	:: d_step { leads[i] && look_drops(i, n) -> printf("leader %d: node %d is back, timer dropped\n", i, n); timer[TIMER(i, n)] = 0; timer_same[TIMER(i, n)] = false } \
	:: d_step { leads[i] && may_void(i, n) -> s = seat_on[n] - 1; printf("leader %d: voids seat %d of node %d\n", i, s, n); void_seat(s); s = 0 }

#define DECIDE(j, n0, n1) \
	:: d_step { leads[i] && plan_job[i] == 0 && may_be_placed(j) && placed[j] < ATTEMPTS && has_room(n0) && has_room(n1) -> \
		decide(i, j, n0, n1); printf("leader %d: decides to place job %d on node %d\n", i, j, n0) }

proctype Leader(byte i) {
	byte s;
	if
	:: i == 0 -> leads[0] = true
	/* Lead: the old one's lease is over, whether it knows or not. */
	:: i == 1 -> d_step { takeovers > 0 -> takeovers--; holder = 1; leads[1] = true; printf("leader 1: takes over\n") }
	fi;
	do
	/* Loop.turn: decide on the state as the watch shows it. */
#if GANG > 1
	DECIDE(0, 0, 1)
#if NODES > 2
	DECIDE(0, 1, 2)
	DECIDE(0, 0, 2)
#endif
#else
	DECIDE(0, 0, 0)
#if NODES > 1
	DECIDE(0, 1, 1)
#endif
#endif
#if JOBS > 1
	DECIDE(1, 0, 0)
#if NODES > 1
	DECIDE(1, 1, 1)
#endif
#endif
	/* Store.Commit */
	:: d_step { plan_job[i] > 0 && leads[i] ->
		if
		:: is_leader(i) && in_sequence(plan_sequence_same[i]) && unchanged(plan_run_same[i]) ->
			s = plan_job[i] - 1;
			printf("leader %d: commits job %d, attempt %d, on node %d\n", i, s, placed[s], plan_node0[i]);
			place(s, plan_node0[i], plan_node1[i])
		:: else -> if :: !is_leader(i) -> leads[i] = false :: else fi
		fi;
		forget_plan(i); s = 0 }
	/* Its answer never comes: Refresh reads the sequence, and the loop goes on. */
	:: d_step { plan_job[i] > 0 && unknowns > 0 && late_plan_job == 0 ->
		unknowns--;
		printf("leader %d: its commit of job %d is not answered\n", i, plan_job[i] - 1);
		late_plan_job = plan_job[i]; late_plan_node0 = plan_node0[i]; late_plan_node1 = plan_node1[i];
		late_plan_run_same = plan_run_same[i]; late_plan_sequence_same = plan_sequence_same[i];
		late_plan_leader = i;
		forget_plan(i) }
	:: d_step { late_plan_job > 0 && late_plan_leader == i ->
		if
		:: is_leader(i) && in_sequence(late_plan_sequence_same) && unchanged(late_plan_run_same) ->
			s = late_plan_job - 1;
			printf("leader %d: the late commit of job %d, attempt %d, on node %d is applied\n", i, s, placed[s], late_plan_node0);
			place(s, late_plan_node0, late_plan_node1)
		:: else
		fi;
		forget_late_plan(); s = 0 }
	REAPER(0)
#if NODES > 1
	REAPER(1)
#endif
#if NODES > 2
	REAPER(2)
#endif
	od
}
