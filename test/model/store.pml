/*
 * The store, and each transaction on it as one indivisible step.
 *
 * etcd compares revisions, which grow without end. A comparison "the revision
 * is still the one I saw" is kept here as one bit beside whoever saw it: set
 * when it looks, cleared by every write to that key. That is the same thing
 * with finitely many states.
 */
mtype:phase   = { Pending, Active, Succeeded, Failed, Cancelled, Lost };
mtype:seat    = { NoSeat, Placed, Claimed, Finished, Released, Voided, Cleared };
mtype:outcome = { NoResult, Good, Stopped, Bad, Missing };	/* by severity, the worst last */
mtype:why     = { NoStop, Cancel, Member, LostRank };

/* A seat is a number: job, attempt and rank in one. The attempt is its fence. */
#define RANKS          GANG
#define SEATS          (JOBS * ATTEMPTS * RANKS)
#define SEAT(j, a, r)  (((j) * ATTEMPTS + (a)) * RANKS + (r))
#define job_of(s)      ((s) / (ATTEMPTS * RANKS))
#define attempt_of(s)  ((s) / RANKS)	/* numbered over all jobs */
#define rank_of(s)     ((s) % RANKS)
#define ranks(j)       ((j) == 0 -> GANG : 1)

/* runs/<job>: Run */
mtype:phase   phase[JOBS]           = Pending;
mtype:why     stop[JOBS]            = NoStop;
mtype:seat    seat[SEATS]           = NoSeat;
mtype:outcome result[SEATS]         = NoResult;
bool          ended[JOBS * ATTEMPTS];
byte          placed[JOBS];		/* attempts so far */
byte          unsettled[JOBS];		/* seats not Settled(), over all attempts */
/* The one seat on a node that is not Free(), plus one; 0: the device is free.
 * That there is never a second one is O4, asserted where seats are given. */
byte          seat_on[NODES];

/* sessions/<node> and nodes/<node> */
bool session[NODES]         = true;
byte session_age[NODES];		/* since the last renewal that arrived */
bool session_mine[NODES]    = true;	/* it is of the instance that now runs there */
#if REVOKES > 0
bool session_cut[NODES];		/* Node.SessionCut: it was ended by a revocation */
#endif
/* The agent's side: whether it believes to have a session, and whether that is
 * the one in the store. */
bool agent_session[NODES]   = true;
bool session_current[NODES] = true;

/* leader: who holds the key. loop/plan: see plan_sequence_same in leader.pml. */
byte holder;

/* The job's process on a node, and its supervisor: what the store cannot see,
 * and the properties are about. */
bool          process_alive[NODES];
byte          process_seat[NODES];	/* + 1; 0: never started, or forgotten */
byte          process_age[NODES];	/* supervisor.renewed */
mtype:outcome process_result[NODES] = NoResult;

/* For the properties only. */
bool cancelled[JOBS];			/* a cancel was accepted */

#define final(p)     (p == Succeeded || p == Failed || p == Cancelled || p == Lost)
#define is_free(s)   (s == NoSeat || s == Released || s == Cleared)
#define settled(s)   (is_free(s) || s == Voided)

/* Scratch within a step; zero between steps, so that it makes no states. */
byte c_seat, c_worst, c_open, c_rank, c_target, c_why;
#define clear_scratch() c_seat = 0; c_worst = 0; c_open = 0; c_rank = 0; c_target = 0; c_why = 0

/* A job's run was written: every comparison with an older one fails. */
inline touch(j) {
	if :: plan_job[0] == j + 1 -> plan_run_same[0] = false :: else fi;
	if :: plan_job[1] == j + 1 -> plan_run_same[1] = false :: else fi;
	if :: late_plan_job == j + 1 -> late_plan_run_same = false :: else fi
}

/* Run.move to a final phase. O1: once. R7: a cancel that was accepted wins. */
inline commit_final(j, p) {
	assert(!final(phase[j]));			/* O1 */
	assert(!cancelled[j] || p == Cancelled);	/* R7 */
	phase[j] = p
}

/* Run.lost: infrastructure loss uses no retry of the user's. */
inline lose(j) {
#ifdef AT_MOST_ONCE
	commit_final(j, Lost)
#else
	assert(!cancelled[j]);				/* R7 */
	phase[j] = Pending
#endif
}

/* Run.endAttempt: the attempt ends, and the job may become final. */
inline conclude(j, a, why_) {
	c_why = why_;	/* a parameter is only text: it must be read before stop changes */
	ended[a] = true;
	c_worst = Good; c_rank = 0;
	do
	:: c_rank < ranks(j) ->
		c_seat = a * RANKS + c_rank;
		if
		:: result[c_seat] == Missing -> c_worst = Missing
		:: result[c_seat] == Bad && c_worst != Missing -> c_worst = Bad
		:: result[c_seat] == Stopped && c_worst == Good -> c_worst = Stopped
		:: else
		fi;
		result[c_seat] = NoResult;	/* of no interest any more */
		c_rank++
	:: else -> break
	od;
	stop[j] = NoStop;
	if
	:: c_why == Cancel -> commit_final(j, Cancelled)
	:: c_why != Cancel && c_worst == Good -> commit_final(j, Succeeded)
	:: c_why != Cancel && c_worst != Good &&
		(c_worst == Missing || c_why == LostRank || c_worst == Stopped && c_why == NoStop) -> lose(j)
	:: else -> commit_final(j, Failed)
	fi
}

/* Loop's Commit of one placing: Run.Place, and the new lease, whose revision is
 * the fence. seats are of rank 0 and 1. */
inline place(j, n0, n1) {
	assert(placed[j] < ATTEMPTS);			/* else give the configuration more room */
	assert(!cancelled[j]);				/* R7 */
	assert(seat_on[n0] == 0);			/* O4: no device is given twice */
	seat[SEAT(j, placed[j], 0)] = Placed;
	seat_on[n0] = SEAT(j, placed[j], 0) + 1;
	unsettled[j]++;
#if GANG > 1
	if
	:: j == 0 ->
		assert(seat_on[n1] == 0);		/* O4 */
		seat[SEAT(j, placed[j], 1)] = Placed;
		seat_on[n1] = SEAT(j, placed[j], 1) + 1;
		unsettled[j]++
	:: else
	fi;
#endif
	placed[j]++;
	phase[j] = Active;
	touch(j);
	plan_sequence_same[0] = false; plan_sequence_same[1] = false; late_plan_sequence_same = false
}

/* Run.RequestStop with StopCancel. */
inline request_cancel(j) {
	cancelled[j] = true;
	if
	:: phase[j] == Pending -> commit_final(j, Cancelled)
	:: else -> stop[j] = Cancel
	fi;
	touch(j)
}

/* Store.Claim, Run.Claim: compares the fence (the attempt is under way), the
 * stop intent (R9: later claims fail) and the caller's session. */
#ifdef NO_FENCE
#define may_claim(s, session_ok) (session_ok && (seat[s] == Claimed || seat[s] == Placed && stop[job_of(s)] == NoStop))
#else
#define may_claim(s, session_ok) (session_ok && !ended[attempt_of(s)] \
	&& (seat[s] == Claimed || seat[s] == Placed && stop[job_of(s)] == NoStop))
#endif

inline claim(s) {
	seat[s] = Claimed;
	touch(job_of(s))
}

/* Run.Finish, when the fence is current; a late report is refused. */
inline finish(s, res) {
	c_target = s;
#ifdef NO_FENCE	/* planted: the report is taken for whatever attempt is under way */
	if
	:: ended[attempt_of(s)] && phase[job_of(s)] == Active -> c_target = SEAT(job_of(s), placed[job_of(s)] - 1, rank_of(s))
	:: else
	fi;
#endif
	if
	:: !ended[attempt_of(c_target)] && (seat[c_target] == Placed || seat[c_target] == Claimed) ->
		assert(c_target == s);			/* O1: an attempt that is over commits nothing */
		seat[s] = Finished;
		result[s] = res;
		c_open = 0; c_rank = 0;
		do
		:: c_rank < ranks(job_of(s)) ->
			c_open = c_open + (result[attempt_of(s) * RANKS + c_rank] == NoResult -> 1 : 0);
			c_rank++
		:: else -> break
		od;
		if
		:: c_open == 0 -> conclude(job_of(s), attempt_of(s), stop[job_of(s)])
		/* Run.stopOthers */
		:: c_open > 0 && res != Good && stop[job_of(s)] == NoStop ->
			stop[job_of(s)] = (res == Bad -> Member : LostRank)
		:: else
		fi;
		touch(job_of(s))
	:: else	/* refused, or the same again */
	fi;
	clear_scratch()
}

/* A seat's device is free. */
inline free_seat(n, s) {
	assert(!process_alive[n] || process_seat[n] - 1 != s);	/* O4: free means dead */
	if
	:: seat[s] == Voided -> seat[s] = Cleared
	:: else -> seat[s] = Released; unsettled[job_of(s)]--
	fi;
	seat_on[n] = 0;
	touch(job_of(s))
}

/* Run.Release: by fence, current or not (R8), of a seat that has reported. */
#ifdef NO_R8_RELEASE	/* planted: only the attempt under way may release */
#define may_release(s) (seat[s] == Finished && !ended[attempt_of(s)])
#else
#define may_release(s) (!is_free(seat[s]) && (seat[s] == Voided || seat[s] == Finished || ended[attempt_of(s)]))
#endif

inline release(n, s) {
	if :: may_release(s) -> free_seat(n, s) :: else fi
}

/* Store.Void, Run.Void: seat by seat (R2); the first one ends the attempt. What
 * it compares is in the guard of Leader. */
inline void_seat(s) {
	seat[s] = Voided;
	unsettled[job_of(s)]--;
	if
	:: !ended[attempt_of(s)] && result[s] == NoResult ->
		result[s] = Missing;
#ifdef NO_R7	/* planted: a void does not look at the stop intent */
		conclude(job_of(s), attempt_of(s), NoStop)
#else
		conclude(job_of(s), attempt_of(s), stop[job_of(s)])
#endif
	:: else
	fi;
	touch(job_of(s));
	clear_scratch()
}
