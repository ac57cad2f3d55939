/*
 * The hub: its store, and the transactions on it. Several servers may run any
 * of these steps; each step is one etcd transaction.
 */
mtype:grant  = { Waiting, Offered, Bound, Final };
mtype:record = {
	None,		/* the member has no such job */
	Foreign,	/* the ID is there with another origin (F7) */
	Pending,	/* granted; no attempt under way */
	Running,	/* granted; an attempt is under way */
	Done,		/* final: a tombstone */
	Returned	/* given back: its epoch is the floor */
};

/* grants/<job> */
mtype:grant grant = Waiting;
byte epoch;		/* CreateRevision of the live grant */
byte owner;		/* Bound: the cluster */
byte owner_inc;		/* Bound: its incarnation */
bool cancel;		/* Bound: the intent to cancel (F8) */
bool excluded[2];	/* said taken (F7) */
byte revision;		/* the last epoch; a restore does not lower it */

/* clusters/<name> */
byte reconciled[2];	/* the incarnation that the hub has confirmed */
bool dead[2];		/* declared dead */

/* after a restore of the hub (F6) */
byte hub_inc;
bool asking;
bool answered[2];
mtype:record answer_kind[2] = None;
byte answer_epoch[2];
byte answer_from[2];

bool session[2] = true;	/* the member has said hello and has the answer */

/* messages under way, one of a kind and cluster; epoch 0 is none */
byte claim[2], claim_inc[2];				/* member → hub */
byte bound[2], bound_inc[2], bound_hub[2];		/* hub → member: the claim has won */
byte report[2], report_inc[2];				/* member → hub */
mtype:record report_kind[2] = None;
bool hello[2];						/* member → hub */
bool hello_live[2];					/* its stream is open: the answer can arrive */
byte hello_inc[2], hello_epoch[2], hello_hub[2];
mtype:record hello_kind[2] = None;
bool welcome[2];					/* hub → member: the answer to hello */
byte welcome_inc[2], welcome_hub[2], welcome_bound[2], welcome_drop[2];
bool welcome_dead[2];

byte plan;		/* the leader has decided to withdraw the offer of this epoch */
#ifdef ROSTER
bool in_roster;		/* clusters/1 exists */
bool roster_cached;	/* federation/roster of cluster 0 names cluster 1 */
#endif

/* what really happened, for the assertions */
bool cancel_accepted;
bool restored;		/* some store was restored */
bool any_death;
bool misjudged[2];	/* declared dead while alive, and does not know it yet */
bool gone[2];
bool said_taken[2];
byte true_epoch;	/* the last grant that was bound; restores do not touch it */
byte true_owner;

#define is_bound_to(c) (grant == Bound && owner == c)

/* clearing a message keeps the number of states small */
inline clear_claim(c)   { claim[c] = 0; claim_inc[c] = 0 }
inline clear_bound(c)   { bound[c] = 0; bound_inc[c] = 0; bound_hub[c] = 0 }
inline clear_report(c)  { report[c] = 0; report_inc[c] = 0; report_kind[c] = None }
inline clear_hello(c)   { hello[c] = false; hello_live[c] = false; hello_inc[c] = 0; hello_epoch[c] = 0; hello_hub[c] = 0; hello_kind[c] = None }
inline clear_welcome(c) { welcome[c] = false; welcome_inc[c] = 0; welcome_hub[c] = 0; welcome_bound[c] = 0;
	welcome_drop[c] = 0; welcome_dead[c] = false }

/* A session ends, and with its stream the answers on it. A hello that has arrived
 * may still be applied. */
inline end_session(c) { session[c] = false; hello_live[c] = false; clear_welcome(c) }

inline finalize() { grant = Final; owner = 0; owner_inc = 0; epoch = 0; cancel = false }

/* grant.Hub.release: the job has no owner any more. F8: what was to be cancelled
 * is cancelled now. `lost` is the rule for at_most_once. */
inline release(lost, keep_cancel) {
	if
	:: lost || cancel && keep_cancel -> finalize()
	:: else -> grant = Waiting; owner = 0; owner_inc = 0; epoch = 0; cancel = false
	fi
}

/* Store.Offer. The key is created, so its CreateRevision is the new epoch. */
inline offer() {
	revision++; epoch = revision; grant = Offered;
	printf("hub: offers the job, epoch %d\n", epoch)
}

/* Store.Withdraw, decided earlier. F9: compares the grant. */
#ifdef NO_F9
#define withdraw_compares (grant == Offered || grant == Bound)
#else
#define withdraw_compares (grant == Offered && epoch == plan)
#endif
inline withdraw() {
	if
	:: withdraw_compares -> printf("hub: withdraws epoch %d\n", epoch); release(false, true)
	:: else
	fi;
	plan = 0
}

/* Hub.claims, Store.Bind. F1: the grant is unchanged and open, the incarnation
 * is reconciled. A claim that has won before is answered again. */
#ifdef NO_F1_OPEN	/* planted: a claim does not compare that the grant is open */
#define is_open(c) ((grant == Offered || grant == Bound) && epoch == claim[c])
#else
#define is_open(c) (grant == Offered && epoch == claim[c])
#endif
#ifdef NO_F1_INCARNATION	/* planted: a claim does not compare the incarnation */
#define is_reconciled(c) true
#else
#define is_reconciled(c) (claim_inc[c] == reconciled[c] && !dead[c])
#endif
#ifdef ROSTER
#ifdef NO_ROSTER	/* planted: a new member gets a grant before another has stored its name */
#define is_known(c) (c == 0 || in_roster)
#else
#define is_known(c) (c == 0 || in_roster && roster_cached)
#endif
#else
#define is_known(c) true
#endif
inline bind(c) {
	if
	:: is_open(c) && is_reconciled(c) && is_known(c) && !excluded[c] ->
		assert(!cancel_accepted);	/* F8: after an accepted cancel nothing is bound */
		grant = Bound; owner = c; owner_inc = claim_inc[c];
		true_epoch = epoch; true_owner = c;
		bound[c] = epoch; bound_inc[c] = claim_inc[c]; bound_hub[c] = hub_inc;
		printf("hub: binds epoch %d to cluster %d\n", epoch, c)
	:: else ->
		if
		:: is_bound_to(c) && epoch == claim[c] && owner_inc == claim_inc[c] ->
			bound[c] = epoch; bound_inc[c] = claim_inc[c]; bound_hub[c] = hub_inc
		:: else
		fi
	fi
}

/* Hub.reports. F4: epoch and incarnation are compared. */
#ifdef NO_F4_EPOCH
#define same_epoch(c) true
#else
#define same_epoch(c) (report[c] == epoch)
#endif
#ifdef NO_F4_INCARNATION
#define same_incarnation(c) true
#else
#define same_incarnation(c) (report_inc[c] == owner_inc)
#endif
#ifdef NO_F4_OWNER	/* planted: the epoch alone is compared, in any state of the grant */
#define is_holder(c) (grant == Bound)
#else
#define is_holder(c) is_bound_to(c)
#endif
#ifdef NO_F8_RETURN
#define KEEP_RETURN false
#else
#define KEEP_RETURN true
#endif
#ifdef NO_F8_DEATH
#define KEEP_DEATH false
#else
#define KEEP_DEATH true
#endif
#ifdef NO_F8_RESTORE
#define KEEP_RESTORE false
#else
#define KEEP_RESTORE true
#endif
inline apply_report(c) {
	if
	:: is_holder(c) && same_epoch(c) && same_incarnation(c) ->
		printf("hub: cluster %d reports %e, epoch %d\n", c, report_kind[c], report[c]);
		if
		:: report_kind[c] == Returned -> release(false, KEEP_RETURN)
		:: report_kind[c] == Foreign ->
			assert(!said_taken[c]);	/* F7: a cluster says taken once */
			said_taken[c] = true;
#ifndef NO_F7_EXCLUDE
			excluded[c] = true;
#endif
			release(false, KEEP_RETURN)
		:: else ->
			/* O1: only the holder of the last grant makes it final */
			assert(report[c] == true_epoch && c == true_owner); /* O1 */
			finalize()
		fi
	:: else
	fi
}

#ifdef NO_F6_COMMIT	/* planted: the hub takes reports before all have answered */
#define takes_reports true
#else
#define takes_reports (!asking)
#endif
#ifdef NO_F5_LISTED	/* planted: what is listed waits again all the same */
#define f5_listed(c) release(ONCE, KEEP_RESTORE); welcome_drop[c] = 0
#else
#define f5_listed(c) owner_inc = hello_inc[c]
#endif
#ifdef NO_F5_FINAL	/* planted: a listed tombstone is taken for a missing job */
#define f5_final(c) release(ONCE, KEEP_RESTORE)
#else
#define f5_final(c) finalize()
#endif
#if defined(NO_F5_ABSENT)	/* planted: what is not listed stays bound to the old incarnation */
#define f5_absent(c) skip
#elif defined(NO_F5_ONCE)	/* planted: at_most_once waits again */
#define f5_absent(c) release(false, KEEP_RESTORE)
#else
#define f5_absent(c) release(ONCE, KEEP_RESTORE)
#endif

/* Hub.hello, grant.Hub.Reconcile */
inline apply_hello(c) {
	if
	:: hello_hub[c] != hub_inc || hello_inc[c] < reconciled[c] ->
		printf("hub: refuses a hello of cluster %d: it is old\n", c)
	:: hello_hub[c] == hub_inc && hello_inc[c] >= reconciled[c] && asking ->
#ifdef NO_F6_CONFIRM	/* planted: the hub confirms members before all have answered */
		welcome[c] = hello_live[c]; welcome_inc[c] = (hello_live[c] -> hello_inc[c] : 0);
		welcome_hub[c] = (hello_live[c] -> hub_inc : 0);
#endif
		answered[c] = true; answer_kind[c] = hello_kind[c]; answer_epoch[c] = hello_epoch[c]; answer_from[c] = hello_inc[c];
		printf("hub: cluster %d answers: %e, epoch %d\n", c, hello_kind[c], hello_epoch[c])
	:: else ->
		printf("hub: hello of cluster %d, incarnation %d: %e, epoch %d\n", c, hello_inc[c], hello_kind[c], hello_epoch[c]);
		welcome[c] = hello_live[c]; welcome_inc[c] = hello_inc[c]; welcome_hub[c] = hub_inc;
		welcome_bound[c] = 0; welcome_drop[c] = 0; welcome_dead[c] = false;
		if
		:: dead[c] && hello_inc[c] == reconciled[c] -> welcome_dead[c] = true
		:: else ->
			if
			:: hello_inc[c] > reconciled[c] && is_bound_to(c) ->	/* F5 */
				if
				:: hello_epoch[c] == epoch && (hello_kind[c] == Pending || hello_kind[c] == Running) ->
					f5_listed(c)
				:: hello_epoch[c] == epoch && hello_kind[c] == Done -> f5_final(c)
				:: else -> f5_absent(c)
				fi
#ifdef NO_F2_HELLO	/* planted: a hello without the job takes it away */
			:: hello_inc[c] == reconciled[c] && is_bound_to(c) && hello_epoch[c] < epoch -> release(ONCE, true)
#endif
			:: else
			fi;
			reconciled[c] = hello_inc[c]; dead[c] = false;
			if :: is_bound_to(c) -> welcome_bound[c] = epoch :: else fi;
			if
			:: (hello_kind[c] == Pending || hello_kind[c] == Running) && !(is_bound_to(c) && epoch == hello_epoch[c]) ->
				welcome_drop[c] = hello_epoch[c]
			:: else
			fi
		fi;
		if :: !hello_live[c] -> clear_welcome(c) :: else fi
	fi
}
/* Hub.declareDead: an operator says that cluster 0 never comes back. */
inline declare_dead() {
	dead[0] = true; any_death = true; misjudged[0] = !gone[0];
	printf("operator: declares cluster 0 dead\n");
	if
	:: is_bound_to(0) ->
		true_owner = 2;
#ifdef NO_DEATH_ONCE	/* planted: at_most_once waits again */
		release(false, KEEP_DEATH)
#else
		release(ONCE, KEEP_DEATH)
#endif
	:: else
	fi
}

/* Store.Restore of the hub: the backup. */
#if HUB_RESTORES > 0
bool kept;
mtype:grant kept_grant = Waiting;
byte kept_epoch, kept_owner, kept_owner_inc, kept_reconciled[2], kept_revision;
bool kept_cancel, kept_excluded[2], kept_dead[2], kept_accepted;
#ifdef ROSTER
bool kept_roster;
#endif
inline back_up_hub() {
	kept = true;
	kept_grant = grant; kept_epoch = epoch; kept_owner = owner; kept_owner_inc = owner_inc;
	kept_cancel = cancel; kept_accepted = cancel_accepted; kept_revision = revision;
	kept_excluded[0] = excluded[0]; kept_excluded[1] = excluded[1];
	kept_reconciled[0] = reconciled[0]; kept_reconciled[1] = reconciled[1];
	kept_dead[0] = dead[0]; kept_dead[1] = dead[1];
#ifdef ROSTER
	kept_roster = in_roster;
#endif
	printf("hub: a backup is made\n")
}
inline restore_hub() {
	grant = kept_grant; epoch = kept_epoch; owner = kept_owner; owner_inc = kept_owner_inc;
	cancel = kept_cancel; cancel_accepted = kept_accepted;
	excluded[0] = kept_excluded[0]; excluded[1] = kept_excluded[1];
	reconciled[0] = kept_reconciled[0]; reconciled[1] = kept_reconciled[1];
	dead[0] = kept_dead[0]; dead[1] = kept_dead[1];
#ifdef ROSTER
	in_roster = kept_roster;
#endif
#ifdef NO_F6_REVISIONS	/* planted: epochs repeat */
	revision = kept_revision;
#endif
	hub_inc++; restored = true; plan = 0;
	answered[0] = false; answered[1] = false;
	end_session(0); end_session(1);
#ifdef NO_F6_ASK	/* planted: the hub goes on at once */
	asking = false;
#else
	asking = true;
#endif
#ifndef NO_F6_OFFER
	if :: grant == Offered -> grant = Waiting; epoch = 0 :: else fi;
#endif
	printf("hub: restored, incarnation %d: %e, epoch %d\n", hub_inc, grant, epoch)
}
#endif

#ifdef ROSTER
#define must_answer(c) (c == 0 || in_roster || roster_cached)
#else
#define must_answer(c) true
#endif
#if defined(NO_F6_ALL)	/* planted: the first answer is enough */
#define all_answered (answered[0] || answered[1])
#else
#define all_answered ((answered[0] || dead[0]) && (answered[1] || dead[1] || !must_answer(1)))
#endif

/* grant.Hub.Resolve: F6, the highest epoch wins. */
byte best, best_epoch;
#ifdef NO_F6_TOMBSTONES	/* planted: hellos list held grants only */
#define counts(c) (answered[c] && !dead[c] && (answer_kind[c] == Pending || answer_kind[c] == Running))
#else
#define counts(c) (answered[c] && !dead[c] && answer_epoch[c] > 0)
#endif
#ifdef NO_F6_HIGHEST	/* planted: the hub's record wins, then the first that holds the job */
#define beats(c) (grant == Bound && owner == c || best == 2)
#else
#define beats(c) (answer_epoch[c] > best_epoch)
#endif
inline consider(c) {
	if :: counts(c) && beats(c) -> best = c; best_epoch = answer_epoch[c] :: else fi
}
inline settle(c) {
	if
	:: answered[c] -> reconciled[c] = answer_from[c];
		if :: answer_kind[c] == Foreign && answer_epoch[c] > 0 -> excluded[c] = true :: else fi
	:: else
	fi;
	answered[c] = false; answer_kind[c] = None; answer_epoch[c] = 0; answer_from[c] = 0
}
#ifdef NO_F6_ONCE	/* planted: at_most_once waits again */
#define LOST_THEN false
#else
#define LOST_THEN ONCE
#endif
inline resolve() {
	best = 2; best_epoch = 0;
	consider(0); consider(1);
	if
#ifdef NO_F6_OFFER	/* planted: an offer of the backup stays open */
	:: grant == Offered && (best == 2 || answer_kind[best] == Returned)
#endif
	:: grant == Final
	:: grant != Final && best == 2 -> release(LOST_THEN, KEEP_RESTORE); true_owner = 2
	:: grant != Final && best < 2 ->
		if
		:: answer_kind[best] == Pending || answer_kind[best] == Running ->
			grant = Bound; epoch = best_epoch; owner = best; owner_inc = answer_from[best];
			true_epoch = epoch; true_owner = best; misjudged[best] = false
		:: answer_kind[best] == Done -> finalize()
		:: else -> release(LOST_THEN, KEEP_RESTORE); true_owner = 2
		fi
	fi;
	settle(0); settle(1);
#ifdef ROSTER
	in_roster = in_roster || roster_cached;
#endif
	asking = false; best = 0; best_epoch = 0;
	printf("hub: all have answered: %e, epoch %d\n", grant, epoch)
}
