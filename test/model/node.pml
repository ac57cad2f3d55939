/*
 * A node: its agent, the supervisor with the job's process, and what befalls
 * them. A node has one device, so the agent has one seat's life at a time.
 */
mtype:life = {
	Idle,		/* holds no seat */
	Claiming,	/* seat.claim: the request is under way */
	HasClaim,	/* the claim was acknowledged; nothing is spawned */
	Starting,	/* seat.start: freshness and session were looked at; the spec is made */
	Running,	/* it has a supervisor, which may have ended; all of this is on disk */
	Reported	/* the end was reported; the seat is to be released */
};

bool       up[NODES] = true;		/* the agent runs */
bool       gone[NODES];			/* the node never comes back */
byte       agent_age[NODES];		/* Agent.renewed */
mtype:life life[NODES] = Idle;
byte       life_seat[NODES];
bool       life_session[NODES];		/* the claim was made under the agent's present session (R5) */
byte       spec_age[NODES];		/* Spec.RenewedAt, while Starting */

/* seat.waitForOldProcess: an agent with an empty directory does not know what an earlier
 * one left running. arrival_age counts from the first session of this identity,
 * arrival_seat is what was there then. */
byte arrival_age[NODES] = LOST_AFTER;
byte arrival_seat[NODES];
bool stranger[NODES];			/* a process lives that this agent does not know of */

byte late_claim[NODES];			/* seat + 1 of a claim given up and still under way */
bool late_claim_session[NODES];		/* its session is still the store's */

#define wanted(n)  (seat_on[n] - 1)	/* the seat the store shows for this node */

#ifdef CLEAN_REPORT
/* Agent.follow, Run.Clear: once a session the agent says what it holds, and what
 * is older than the session, over, and not named is freed when that arrives. In
 * the code as found a seat not begun for the moment was not named, though it
 * could still be claimed; as proposed every seat shown as current is named. */
byte report_due[NODES];			/* 2: session opened; 1: and its seats looked at */
byte older_seat[NODES];			/* seat + 1 on the node when the session was opened */
byte clean_report[NODES];		/* under way: seat + 1 it does not name */
bool clean_report_session[NODES];
inline apply_clean_report(n) {
	if
	:: clean_report_session[n] && seat_on[n] == clean_report[n] && ended[attempt_of(wanted(n))] ->
		printf("node %d: its clean report arrives and frees seat %d\n", n, wanted(n));
		free_seat(n, clean_report[n] - 1)
	:: else
	fi;
	clean_report[n] = 0; clean_report_session[n] = false
}
#ifdef CODE_CLEAN_REPORT
#define not_named(s) true
#else
#define not_named(s) ended[attempt_of(s)]
#endif
#define older_reports(n) clean_report_session[n] = false
#else
#define older_reports(n) skip
#endif

#define fresh(n)   (agent_age[n] < FRESH)

/* Whether a supervisor takes a renewal: until it has decided, and for good. */
#define renewable(n) (up[n] && life[n] == Running && process_alive[n] && !stranger[n] && process_age[n] < FRESH)

/* Agent.acknowledged */
inline acknowledged(n, age) {
	agent_age[n] = age;
	if :: renewable(n) -> process_age[n] = age :: else fi
}

/* Store.OpenSession: the session anew, and the node's record rewritten (R3). */
inline open_session(n) {
	session[n] = true; session_age[n] = 0; session_mine[n] = true;
#if REVOKES > 0
	session_cut[n] = false;
#endif
	timer_same[TIMER(0, n)] = false; timer_same[TIMER(1, n)] = false;
	late_claim_session[n] = false;
	older_reports(n)
}

/* A second instance is refused while the session of another lives (rule 1). */
#define may_open(n) (!session[n] || session_mine[n])

inline session_lost(n) {	/* on the agent's side */
	agent_session[n] = false; session_current[n] = false; life_session[n] = false
}

inline no_life(n) {
	life[n] = Idle; life_seat[n] = 0; life_session[n] = false; spec_age[n] = 0
}

inline end_process(n, res) {
	process_alive[n] = false; process_age[n] = 0; process_result[n] = res;
	if	/* nobody here knows of a stranger's result */
	:: stranger[n] -> stranger[n] = false; process_seat[n] = 0; process_result[n] = (life[n] == Running -> Missing : NoResult)
	:: else
	fi
}

/* O2: no two attempts of a job live together, nor one rank twice. O4: no device
 * is held by two processes. */
#define lives_at(k, n, s) (k != n && process_alive[k] && job_of(process_seat[k] - 1) == job_of(s) \
	&& (attempt_of(process_seat[k] - 1) != attempt_of(s) || process_seat[k] - 1 == s))
#if NODES == 1
#define other_lives(n, s) false
#elif NODES == 2
#define other_lives(n, s) (lives_at(0, n, s) || lives_at(1, n, s))
#else
#define other_lives(n, s) (lives_at(0, n, s) || lives_at(1, n, s) || lives_at(2, n, s))
#endif

/* The supervisor looks at the clock right before exec (R4). */
#ifdef NO_R4
#define may_spawn(n) true
#else
#define may_spawn(n) (spec_age[n] < FRESH)
#endif

inline spawn(n, s, age) {
	assert(!process_alive[n]);		/* O4 */
	assert(!other_lives(n, s));		/* O2 */
#ifdef AT_MOST_ONCE
	assert(job_of(s) != 0 || attempt_of(s) == 0);	/* O2: at_most_once */
#endif
	process_alive[n] = true; process_seat[n] = s + 1; process_age[n] = age; process_result[n] = NoResult;
	printf("node %d: SPAWNS seat %d, renewed %d ticks ago\n", n, s, age)
}

inline agent_dies(n) {
	up[n] = false;
	if	/* a claim under way may still arrive */
	:: life[n] == Claiming && late_claim[n] == 0 -> late_claim[n] = life_seat[n] + 1; late_claim_session[n] = session_current[n] && life_session[n]
	:: else
	fi;
#ifdef NO_R6	/* planted: it remembers claim and session, and believes itself fresh when it is back */
	if :: life[n] == Claiming || life[n] == Starting -> no_life(n) :: else fi;
	agent_age[n] = 0
#else
	session_lost(n);
	agent_age[n] = EXPIRED;			/* R6 */
	if :: life[n] != Running && life[n] != Reported -> no_life(n) :: else fi;
#endif
	/* Found again by its directory: Runner.Find, Agent.adopt. */
	if :: life[n] == Reported -> life[n] = Running :: else fi
}

inline apply_late_claim(n) {
	if
	:: may_claim(late_claim[n] - 1, late_claim_session[n]) -> claim(late_claim[n] - 1); printf("node %d: the late claim of seat %d is applied\n", n, late_claim[n] - 1)
	:: else
	fi;
	late_claim[n] = 0; late_claim_session[n] = false
}

/* What the store wants of this node: Agent.reconcile. */
#define wants_process(n) (seat_on[n] > 0 && seat[wanted(n)] == Placed && !ended[attempt_of(wanted(n))] \
	&& stop[job_of(wanted(n))] == NoStop)
#define wants_decline(n) (seat_on[n] > 0 && seat[wanted(n)] == Placed && !ended[attempt_of(wanted(n))] \
	&& stop[job_of(wanted(n))] != NoStop)
#define wants_burial(n)  (seat_on[n] > 0 && !wants_process(n) && !wants_decline(n))
#ifdef ENDLESS	/* planted: what cannot be freed is tried for ever; only the LTL formula sees that */
#define may_go(n)        true
#else
#define may_go(n)        (seat[wanted(n)] == Claimed && !ended[attempt_of(wanted(n))] || may_release(wanted(n)))
#endif
#define outlived(n)      (arrival_age[n] >= LOST_AFTER || arrival_seat[n] != seat_on[n])

#ifdef NO_R4
#define may_claim_now(n) true
#else
#define may_claim_now(n) fresh(n)
#endif
#ifdef NO_R5
#define same_session(n) true
#else
#define same_session(n) life_session[n]
#endif

#define must_stop(n) (ended[attempt_of(life_seat[n])] || stop[job_of(life_seat[n])] != NoStop)

#ifdef RELEASE_BEFORE_DEATH	/* planted: asked to stop counts as dead */
#define verified_dead(n) (!process_alive[n] || stranger[n] || must_stop(n))
#else
#define verified_dead(n) (!process_alive[n] || stranger[n])	/* as far as the agent can see */
#endif

#if defined(NO_OUTLIVE)		/* planted: an empty directory is taken for an empty node */
#define may_bury(n) true
#elif defined(NO_R1)		/* planted: a claim without a process is not reported */
#define may_bury(n) (outlived(n) && (seat[wanted(n)] != Claimed || ended[attempt_of(wanted(n))]))
#elif defined(NO_R8)		/* planted: what is not current any more is not looked at */
#define may_bury(n) (outlived(n) && !ended[attempt_of(wanted(n))])
#else
#define may_bury(n) outlived(n)
#endif

/* supervisor.decide: from then on the outcome is Fenced, however it exits. */
#ifdef NO_DEADLINE
#define undecided(n) true
#else
#define undecided(n) (process_age[n] < FRESH)
#endif

/* AgentDoor.CloseSession */
#define holds_nothing(n) (seat_on[n] == 0 || seat[wanted(n)] != Claimed && seat[wanted(n)] != Finished)

proctype Node(byte n) {
	do
	/* ---- the session: Agent.serve ---- */
	:: d_step { up[n] && !agent_session[n] && may_open(n) ->
		open_session(n);
		printf("node %d: opens a session\n", n);
		agent_session[n] = true; session_current[n] = true; life_session[n] = false;
		if :: arrival_age[n] == 255 -> arrival_age[n] = 0; arrival_seat[n] = seat_on[n] :: else fi;
		acknowledged(n, 0)
#ifdef CLEAN_REPORT
		; report_due[n] = 2; older_seat[n] = seat_on[n]
#endif
		}
#ifdef CLEAN_REPORT
	/* follow: reconcile has begun the seat's life, which has failed meanwhile. */
	:: d_step { up[n] && agent_session[n] && report_due[n] == 1 && life[n] == Idle ->
		report_due[n] = 0;
		if
		:: seat_on[n] > 0 && seat_on[n] == older_seat[n] && not_named(wanted(n)) ->
			clean_report[n] = seat_on[n]; clean_report_session[n] = session_current[n];
			printf("node %d: sends a clean report that does not name seat %d\n", n, wanted(n))
		:: else
		fi }
#endif
	/* It was opened, and the agent does not hear of it. */
	:: d_step { up[n] && !agent_session[n] && may_open(n) && losses > 0 -> losses--; open_session(n); printf("node %d: opens a session and does not hear of it\n", n) }
	/* A renewal is refused, or the stream says that there is a newer session. */
	:: d_step { up[n] && agent_session[n] && !session_current[n] -> session_lost(n); printf("node %d: learns that its session has ended\n", n) }
	/* Any part of serve may end with an error while the session lives. */
	:: d_step { up[n] && agent_session[n] && losses > 0 -> losses--; session_lost(n); printf("node %d: gives its session up\n", n) }
	/* etcd ends the lease, at its time or later. */
	:: d_step { session[n] && session_age[n] >= TTL ->
		session[n] = false; session_age[n] = 0; session_current[n] = false; late_claim_session[n] = false;
		older_reports(n);
		printf("node %d: its session expires\n", n) }

#if REVOKES > 0
	/* Store.Revoke: the session is cut, and the node's record says so (R3). That it
	 * may open another at any time stands for joining again. */
	:: d_step { session[n] && revokes > 0 -> revokes--;
		session[n] = false; session_age[n] = 0; session_current[n] = false; late_claim_session[n] = false;
		session_cut[n] = true;
		timer_same[TIMER(0, n)] = false; timer_same[TIMER(1, n)] = false;
		older_reports(n);
		printf("node %d: is revoked\n", n) }
#endif

	/* ---- a seat: seat.live ---- */
	:: d_step { up[n] && life[n] == Idle && agent_session[n] && (session_current[n] || !healed) && wants_process(n) && may_claim_now(n) ->
		life[n] = Claiming; life_seat[n] = wanted(n); life_session[n] = true;
#ifdef CLEAN_REPORT
		if :: report_due[n] == 2 -> report_due[n] = 1 :: else fi;
#endif
		printf("node %d: sends a claim of seat %d\n", n, life_seat[n]) }
#ifdef CLAIM_AFTER_SPAWN	/* planted: it starts what it was told to, and then claims it */
	:: d_step { up[n] && life[n] == Claiming ->
		life[n] = Running;
		if
		:: fresh(n) -> spawn(n, life_seat[n], agent_age[n])
		:: else -> process_seat[n] = life_seat[n] + 1; process_result[n] = Missing
		fi }
	:: d_step { up[n] && life[n] == Running && seat[life_seat[n]] == Placed && may_claim(life_seat[n], agent_session[n] && session_current[n]) ->
		claim(life_seat[n]); printf("node %d: has claimed seat %d\n", n, life_seat[n]) }
#else
	:: d_step { up[n] && life[n] == Claiming ->
		if
		:: may_claim(life_seat[n], life_session[n] && session_current[n]) -> claim(life_seat[n]); life[n] = HasClaim; printf("node %d: has claimed seat %d\n", n, life_seat[n])
		:: else -> no_life(n); printf("node %d: its claim is refused\n", n)
		fi }
#endif
	:: d_step { up[n] && life[n] == Claiming && losses > 0 && late_claim[n] == 0 ->
		losses--;
		printf("node %d: its claim of seat %d is not answered\n", n, life_seat[n]);
		late_claim[n] = life_seat[n] + 1; late_claim_session[n] = life_session[n] && session_current[n];
		no_life(n) }
	/* seat.start: nothing is begun on an old renewal (R4), nor on a claim of an
	 * earlier session (R5): that seat is claimed anew, or reported lost. */
	:: d_step { up[n] && life[n] == HasClaim ->
		if
		:: same_session(n) && may_claim_now(n) -> life[n] = Starting; spec_age[n] = agent_age[n]; printf("node %d: goes to start seat %d\n", n, life_seat[n])
		:: else -> no_life(n); printf("node %d: drops its claim\n", n)
		fi }
	:: d_step { up[n] && life[n] == Starting ->
#ifdef CODE_SPAWN_RACE	/* as found: RenewedAt was read after the look at the session */
		spec_age[n] = agent_age[n];
#endif
		life[n] = Running;
		if
		:: may_spawn(n) -> spawn(n, life_seat[n], spec_age[n])
		:: else -> process_seat[n] = life_seat[n] + 1; process_result[n] = Missing	/* run.Fenced */
		fi;
		spec_age[n] = 0; life_session[n] = false }

	/* seat.wish: a stop intent, or an attempt that is over. It dies in its time. */
	:: d_step { up[n] && life[n] == Running && process_alive[n] && !stranger[n] && must_stop(n) -> end_process(n, Stopped); printf("node %d: its process is stopped\n", n) }
	/* seat.finish: the end is reported when the death is verified, devices and all. */
	:: d_step { up[n] && life[n] == Running && agent_session[n] && verified_dead(n) ->
		if
		:: process_result[n] == NoResult -> finish(life_seat[n], (stranger[n] -> Missing : Stopped))
		:: else -> finish(life_seat[n], process_result[n])
		fi;
		life[n] = Reported; printf("node %d: reports the end of seat %d: %e\n", n, life_seat[n], process_result[n]) }
	/* seat.release, Runner.Forget */
	:: d_step { up[n] && life[n] == Reported && agent_session[n] ->
		release(n, life_seat[n]);
		printf("node %d: releases seat %d\n", n, life_seat[n]);
		if :: !process_alive[n] -> process_seat[n] = 0; process_result[n] = NoResult :: else fi;
		no_life(n) }

	/* seat.decline: stopped before it was claimed, in one transaction (R9). */
#ifndef NO_R9
	:: d_step { up[n] && life[n] == Idle && agent_session[n] && session_current[n] && wants_decline(n) ->
		printf("node %d: declines seat %d\n", n, wanted(n));
		finish(wanted(n), Stopped);
		release(n, wanted(n)) }
#endif
	/* seat.reportLost: claimed and without a process is lost (R1); of an attempt that
	 * is over, or reported already, it is freed (R8). */
	:: d_step { up[n] && life[n] == Idle && agent_session[n] && wants_burial(n) && may_bury(n) && may_go(n) ->
		life_seat[n] = wanted(n);
		printf("node %d: finds nothing of seat %d, which is %e\n", n, life_seat[n], seat[life_seat[n]]);
		if
		:: seat[wanted(n)] == Claimed && !ended[attempt_of(wanted(n))] ->
			life[n] = Running;
			if :: !process_alive[n] -> process_seat[n] = wanted(n) + 1; process_result[n] = Missing :: else fi
		:: else -> life[n] = Reported
		fi }

	/* ---- supervisor and process ---- */
	:: d_step { process_alive[n] && undecided(n) -> end_process(n, Good); printf("node %d: its process exits with 0\n", n) }
	:: d_step { process_alive[n] && undecided(n) -> end_process(n, Bad); printf("node %d: its process exits with 1\n", n) }
#ifndef NO_DEADLINE
	:: d_step { process_alive[n] && process_age[n] >= FRESH -> end_process(n, Missing); printf("node %d: the supervisor kills its process in time\n", n) }	/* run.Fenced */
#endif
	/* The supervisor is killed: its job dies with it, and nobody wrote a result. */
	:: d_step { process_alive[n] && kills > 0 -> kills--; end_process(n, Missing); printf("node %d: its supervisor is killed\n", n) }

	/* ---- what befalls them ---- */
	:: d_step { up[n] && kills > 0 -> kills--; agent_dies(n); printf("node %d: its agent is killed\n", n) }
	:: d_step { up[n] && crashes > 0 -> crashes--;
		printf("node %d: crashes\n", n);
		agent_dies(n);
		if :: process_alive[n] -> end_process(n, Missing) :: else fi }
	:: d_step { !up[n] && !gone[n] -> up[n] = true; printf("node %d: its agent starts\n", n) }
	/* Agent.leave: it ends by request and holds nothing, nor does the view say so. */
	:: d_step { up[n] && kills > 0 && life[n] == Idle && agent_session[n] && session_current[n] && holds_nothing(n) ->
		kills--; printf("node %d: its agent leaves\n", n); session[n] = false; session_age[n] = 0; session_current[n] = false; late_claim_session[n] = false;
		agent_dies(n) }
	/* It comes back with an empty directory: another instance, which knows of nothing. */
	:: d_step { wipes > 0 && up[n] -> wipes--;
		printf("node %d: its agent ends, its directory is emptied\n", n);
		agent_dies(n);
		no_life(n);
		session_mine[n] = false; stranger[n] = process_alive[n];
		arrival_age[n] = 255; arrival_seat[n] = 0 }
	od
}
