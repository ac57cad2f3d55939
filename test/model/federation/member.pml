/*
 * A member: its store, Uplink, and as much of its scheduler as the grants need.
 * Loop, engine, agents and supervisors are those of ../ares.pml: here an attempt
 * is one step from pending to running, and its process ends in another.
 */
mtype:record rec[2] = None;	/* jobs/<id> and runs/<id> */
byte held[2];			/* its epoch. Invariant: never lowered, but by a restore. It is the floor (F3) */
byte placed[2];			/* attempts under this grant */
bool acked[2];			/* the hub has acknowledged returned, taken or final */
byte inc[2];			/* loop/identity: restores */
bool confirmed[2] = true;	/* the hub knows this incarnation (F5) */
bool waits[2];			/* restored, and lost_after has not passed (RELIABILITY.md, rule 11) */
byte known_hub[2];		/* federation/hub: the hub's incarnation (F6) */
#ifdef RACE
bool decided[2];		/* the Loop has a plan that starts the job */
#define replan(c) decided[c] = false
#else
#define replan(c) skip
#endif

/* what really happened */
bool alive[2];		/* a process of the job runs here */
bool ran[2];		/* one was started here, ever */
bool moved[2];		/* a failed attempt was given back */
byte done;		/* cluster + 1 that has recorded the end of an attempt as final */
bool adopted;		/* a local job was taken for the granted one */
byte token;		/* the highest ARES_FENCING_TOKEN so far */

#define is_held(c) (rec[c] == Pending || rec[c] == Running)

/* Run.Place by Store.Commit: an attempt starts. */
#ifdef NO_F12	/* planted: the token is the member's own revision */
#define token_of(c) ((1 - c) * TOKENS + placed[c])
#else
#define token_of(c) (held[c] * TOKENS + placed[c])
#endif
inline start(c) {
	placed[c]++;
	printf("cluster %d: STARTS the job, epoch %d, attempt %d\n", c, held[c], placed[c]);
	assert(!alive[c]);						/* O7: no overlap here */
	assert(!alive[1 - c] || misjudged[1 - c] || misjudged[c]);	/* O7: nor with the other cluster */
	assert(!ran[1 - c] || moved[1 - c] || restored || any_death);	/* O7: one cluster starts it */
	assert(grant != Final || misjudged[c]);				/* O1: nothing starts after the end */
	assert(done == 0 || misjudged[c]);						/* O1: nor after an end that a member has recorded */
	assert(!ONCE || !ran[0] && !ran[1]);				/* A1: at_most_once */
	assert(rec[c] != Foreign);					/* F7 */
	assert(token_of(c) > token || misjudged[c]);			/* O9: tokens only grow */
	if :: token_of(c) > token -> token = token_of(c) :: else fi;
	rec[c] = Running; alive[c] = true; ran[c] = true; replan(c)
}

/* Uplink.accept, Store.Accept: create if absent (F7). An old tombstone of the
 * same hub gives way to a higher epoch. */
inline accept(c, e) {
	if
	:: rec[c] == Foreign ->
		printf("cluster %d: the ID is taken, epoch %d\n", c, e);
		held[c] = e; acked[c] = false;
#ifdef NO_F7	/* planted: the local job is adopted */
		rec[c] = Pending; adopted = true
#endif
	:: rec[c] != Foreign ->
		printf("cluster %d: accepts the job, epoch %d\n", c, e);
		rec[c] = Pending; held[c] = e; placed[c] = 0; acked[c] = false; replan(c)
	fi
}

/* Uplink.bound: the answer to a claim. F3: above the floor. F6: of this hub. */
#ifdef NO_F6_INCARNATION	/* planted: messages of an earlier hub are taken */
#define of_this_hub(h, c) true
#else
#define of_this_hub(h, c) (h >= known_hub[c])
#endif
inline take_bound(c) {
	if
	:: bound_inc[c] == inc[c] && of_this_hub(bound_hub[c], c) && bound[c] > held[c] ->
#ifdef NO_F1_ADMISSION	/* planted: admission is checked after the claim, and the job dropped */
		if
		:: healed -> accept(c, bound[c])
		:: !healed && returns > 0 -> returns--; held[c] = bound[c]; rec[c] = None;
			printf("cluster %d: does not admit epoch %d\n", c, bound[c])
		:: !healed -> accept(c, bound[c])
		fi
#else
		accept(c, bound[c])
#endif
	:: else -> printf("cluster %d: ignores an answer for epoch %d\n", c, bound[c])
	fi;
	clear_bound(c)
}

/* Run.Return: F3. The member writes it and reports it afterwards. */
#ifdef NO_F3_UNDERWAY	/* planted: an attempt may be under way */
#define may_return(c) is_held(c)
#else
#define may_return(c) (rec[c] == Pending)
#endif
#ifdef NO_F3_ONCE	/* planted: at_most_once is returned after an attempt */
#define untouched(c) true
#else
#define untouched(c) (!ONCE || placed[c] == 0)
#endif
inline give_back(c) {
	printf("cluster %d: returns the job, epoch %d\n", c, held[c]);
	if :: placed[c] > 0 -> moved[c] = true :: else fi;
#if defined(NO_F3_WRITE)	/* planted: the report goes before the write */
	report[c] = held[c]; report_inc[c] = inc[c]; report_kind[c] = Returned;
#elif defined(NO_F3_FLOOR)	/* planted: the epoch is forgotten */
	report[c] = held[c]; report_inc[c] = inc[c]; report_kind[c] = Returned;
	rec[c] = None; held[c] = 0; acked[c] = false; replan(c)
#elif defined(NO_F3_RUN)	/* planted: the job is deleted, which does not compete with Commit */
	rec[c] = Returned; acked[c] = false
#else
	rec[c] = Returned; acked[c] = false; replan(c)
#endif
}

/* Uplink.hello. F6: the hub's incarnation is written before the answer. */
inline say_hello(c) {
	known_hub[c] = hub_inc;
	hello[c] = true; hello_live[c] = true; hello_inc[c] = inc[c]; hello_hub[c] = hub_inc;
	hello_kind[c] = rec[c]; hello_epoch[c] = held[c];
	if :: hello_kind[c] == Running -> hello_kind[c] = Pending :: else fi
}

inline drop(c) {
	printf("cluster %d: drops epoch %d\n", c, held[c]);
	alive[c] = false; misjudged[c] = false;
#ifdef NO_F5_FLOOR	/* planted: no floor */
	rec[c] = None; held[c] = 0; acked[c] = false; replan(c)
#else
	rec[c] = Returned; acked[c] = true; replan(c)
#endif
}

/* Uplink.welcome: the hub's answer to hello. */
inline take_welcome(c) {
	if
	:: welcome_inc[c] != inc[c] || !of_this_hub(welcome_hub[c], c) -> skip
	:: welcome_inc[c] == inc[c] && of_this_hub(welcome_hub[c], c) && welcome_dead[c] ->
		/* Uplink.rejoin: it was declared dead. It stops what it holds and joins anew. */
		printf("cluster %d: learns that it was declared dead\n", c);
#ifdef NO_DEATH_STOP	/* planted: it joins anew and keeps what it holds */
		misjudged[c] = false;
#else
		if :: is_held(c) -> drop(c) :: else fi;
		misjudged[c] = false;
#endif
		inc[c]++; confirmed[c] = false
	:: else ->
		confirmed[c] = true; session[c] = true;
		if
#ifndef NO_F5_DROP	/* planted: what is no longer bound is kept */
		:: welcome_drop[c] > 0 && is_held(c) && held[c] == welcome_drop[c] -> drop(c)
#endif
		:: else
		fi;
		if
		:: welcome_bound[c] > held[c] -> accept(c, welcome_bound[c])
		:: welcome_bound[c] > 0 && welcome_bound[c] == held[c] && !is_held(c) -> acked[c] = false
		:: else
		fi
	fi;
	clear_welcome(c)
}

/* Store.Restore of cluster 0: the backup. */
#if MEMBER_RESTORES > 0
bool kept0;
mtype:record kept_rec = None;
byte kept_held, kept_placed, kept_hub;
bool kept_acked;
inline back_up_member() {
	kept0 = true; kept_rec = rec[0]; kept_held = held[0]; kept_placed = placed[0]; kept_acked = acked[0];
	kept_hub = known_hub[0];
	printf("cluster 0: a backup is made\n")
}
inline restore_member() {
	if :: done == 1 && !(kept_rec == Done && kept_held == held[0]) -> done = 0 :: else fi;
	rec[0] = kept_rec; held[0] = kept_held; placed[0] = kept_placed; acked[0] = kept_acked; known_hub[0] = kept_hub;
	inc[0]++; waits[0] = true; end_session(0); restored = true; replan(0);
	confirmed[0] = false;
	printf("cluster 0: restored, incarnation %d: %e, epoch %d\n", inc[0], rec[0], held[0])
}
/* Run.Restore, RestoreDelay: lost_after has passed, so every process is dead. */
inline restore_ends() {
#ifndef NO_F5_WAIT	/* planted: hello does not wait */
	alive[0] = false;
#endif
	waits[0] = false;
	placed[0] = (is_held(0) -> placed[0] + RESTORE_ADDS : 0);
	if
	:: is_held(0) && ONCE -> rec[0] = Done; acked[0] = false
	:: rec[0] == Running && !ONCE -> rec[0] = Pending
	:: else
	fi;
	printf("cluster 0: has waited lost_after\n")
}
#endif
