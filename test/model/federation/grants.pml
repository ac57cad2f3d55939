/*
 * Grants: offer, claim, bind, accept, return, report, hello, restore.
 *
 * One job, a hub and two clusters. README.md says what is left out and how to
 * read a trail. There is no fairness before `healed`: a step that may be taken
 * may also be taken late or never, so a cut link, a stopped server and a slow
 * stream need no steps of their own.
 */
#include "parameters.pml"
#include "hub.pml"
#include "member.pml"

#define LOSE(kind) :: atomic { kind[c] && losses > 0 -> losses--; printf("a message is lost\n"); d_step { clear_##kind(c) } }

/* The hub's leader: Hub.offers. Clients and operators use any server. */
proctype Hub() {
	do
	:: d_step { grant == Waiting && !asking && revision < OFFERS -> offer() }
	:: d_step { grant == Offered && plan == 0 && withdraws > 0 -> withdraws--; plan = epoch;
		printf("hub: decides to withdraw epoch %d\n", plan) }
	:: d_step { plan > 0 && !asking -> withdraw() }
#if CANCELS > 0
	/* Admission.Cancel at the hub: one transaction that compares the grant (F8, F9). */
	:: d_step { cancels > 0 && grant != Final && !asking -> cancels--; cancel_accepted = true;
		printf("client: cancels the job\n");
#ifdef NO_F8_BOUND	/* planted: a bound job is cancelled at once, without its owner */
		finalize()
#else
		if
		:: grant == Bound -> cancel = true
		:: else -> finalize()
		fi
#endif
		}
#endif
#ifdef NO_F2_TIMER	/* planted: a silent owner loses the job */
	:: d_step { grant == Bound && timers > 0 -> timers--; printf("hub: cluster %d is silent\n", owner); release(false, true) }
#endif
#if DEATHS > 0 || defined(GONE)
	:: d_step { !dead[0] && (deaths > 0 || gone[0]) -> if :: deaths > 0 -> deaths-- :: else fi;
		if :: done == 1 -> done = 0 :: else fi; declare_dead() }
#endif
#if HUB_RESTORES > 0
	:: d_step { !healed && !kept && hub_restores > 0 -> back_up_hub() }
	:: d_step { !healed && kept && hub_restores > 0 -> hub_restores--; restore_hub() }
#endif
	:: d_step { asking && all_answered -> resolve() }
	od
}

/* Messages that arrive at the hub. A message that is applied may stay under way. */
#define DUP(c, kind) if :: dups > 0 && !healed -> dups-- :: true -> clear_##kind(c) fi
proctype Streams(byte c) {
	do
	:: atomic { claim[c] > 0 && !asking -> d_step { bind(c) }; DUP(c, claim) }
	:: atomic { report[c] > 0 && takes_reports ->
		d_step { apply_report(c) };
		if
		:: losses > 0 && !healed -> losses--; printf("an acknowledgement is lost\n")
		:: report_inc[c] == inc[c] && report[c] == held[c] && report_kind[c] == rec[c] -> acked[c] = true;
#ifdef NO_F4_KEEP	/* planted: an acknowledged tombstone is deleted at once */
			if :: rec[c] != Foreign -> rec[c] = None; held[c] = 0; acked[c] = false :: else fi
#endif
		:: else
		fi;
		DUP(c, report) }
	:: atomic { hello[c] && !(asking && answered[c]) -> d_step { apply_hello(c) };
		if :: dups > 0 && !healed -> dups--; hello_live[c] = false :: true -> clear_hello(c) fi }
	LOSE(claim) LOSE(bound) LOSE(report)
	od
}

#ifdef NO_F1_INCARNATION
#define UNCONFIRMED_CLAIMS true
#else
#define UNCONFIRMED_CLAIMS false
#endif
/* F5: until the hub has confirmed this incarnation */
#ifdef NO_F5_START
#define may_act(c) (!waits[c] && !gone[c])
#else
#define may_act(c) (!waits[c] && !gone[c] && confirmed[c])
#endif
#ifdef NO_F5_RETURN
#define may_return_now(c) (!waits[c] && !gone[c])
#else
#define may_return_now(c) (!waits[c] && !gone[c] && confirmed[c])
#endif
#ifdef NO_F5_CANCEL
#define may_cancel(c) (!waits[c] && !gone[c])
#else
#define may_cancel(c) (!waits[c] && !gone[c] && confirmed[c])
#endif

proctype Member(byte c) {
	do
	/* Uplink.claim */
#ifdef NO_F1	/* planted: a member starts what it was offered, and claims later */
	:: d_step { grant == Offered && !is_held(c) && held[c] < epoch -> accept(c, epoch) }
#endif
	:: d_step { grant == Offered && !gone[c] && (confirmed[c] || UNCONFIRMED_CLAIMS) && !waits[c] && known_hub[c] == hub_inc &&
		!excluded[c] && claim[c] == 0 && bound[c] == 0 && !is_held(c) && held[c] < epoch && is_known(c) ->
		claim[c] = epoch; claim_inc[c] = inc[c]; printf("cluster %d: claims epoch %d\n", c, epoch) }
	:: atomic { bound[c] > 0 && !gone[c] -> take_bound(c) }
	/* Loop.turn, Store.Commit */
#ifdef RACE
	:: d_step { rec[c] == Pending && may_act(c) && !decided[c] -> decided[c] = true; printf("cluster %d: decides to start\n", c) }
	:: d_step { decided[c] -> start(c) }
#else
	:: d_step { rec[c] == Pending && may_act(c) -> start(c) }
#endif
	/* Store.Finish: an attempt ends. */
	:: d_step { alive[c] && rec[c] == Running && !waits[c] && !gone[c] -> alive[c] = false; rec[c] = Done; acked[c] = false;
		if :: !misjudged[c] -> done = c + 1 :: else fi;
		printf("cluster %d: the job ends\n", c) }
	:: d_step { alive[c] && rec[c] == Running && !waits[c] && !gone[c] && fails > 0 && !ONCE -> fails--; alive[c] = false;
		rec[c] = Pending; printf("cluster %d: an attempt fails\n", c) }
	:: d_step { alive[c] && rec[c] == Returned && !gone[c] -> alive[c] = false }
	/* Store.Return */
	:: d_step { returns > 0 && !healed && may_return(c) && untouched(c) && may_return_now(c) -> returns--; give_back(c) }
	/* Uplink.cancel: the hub's intent reaches the owner (F8). */
	:: d_step { cancel && is_bound_to(c) && is_held(c) && held[c] == epoch && may_cancel(c) ->
		alive[c] = false; rec[c] = Done; acked[c] = false; replan(c); printf("cluster %d: cancels the job\n", c) }
	/* Uplink.report */
	:: d_step { (rec[c] == Returned || rec[c] == Done || rec[c] == Foreign && held[c] > 0) && !acked[c] &&
		confirmed[c] && !waits[c] && !gone[c] && report[c] == 0 ->
		report[c] = held[c]; report_inc[c] = inc[c]; report_kind[c] = rec[c] }
#ifdef NO_F4_TOMBSTONE	/* planted: a tombstone is deleted before the hub has acknowledged it */
	:: d_step { !healed && rec[c] == Done && !acked[c] -> rec[c] = None; held[c] = 0; printf("cluster %d: forgets the end\n", c) }
#endif
	/* Uplink.hello */
	:: d_step { !session[c] && !waits[c] && !gone[c] && !hello_live[c] && !welcome[c] && !(asking && answered[c]) -> say_hello(c) }
	:: atomic { welcome[c] && !gone[c] -> take_welcome(c) }
	:: d_step { cuts > 0 && session[c] && !healed -> cuts--; end_session(c); printf("cluster %d: its session ends\n", c) }
#if MEMBER_RESTORES > 0
	:: d_step { c == 0 && !healed && !kept0 && member_restores > 0 -> back_up_member() }
	:: d_step { c == 0 && !healed && kept0 && member_restores > 0 && !waits[0] -> member_restores--; restore_member() }
	:: d_step { c == 0 && waits[0] -> restore_ends() }
#endif
#ifdef GONE
	:: d_step { c == 0 && !healed && !gone[0] -> gone[0] = true; alive[0] = false; printf("cluster 0: burns down\n") }
#endif
	od
}
#ifdef ROSTER
proctype Roster() {
	do
	:: d_step { !in_roster && !roster_cached && !asking && hub_inc == 0 -> in_roster = true; printf("cluster 1: joins\n") }
	:: d_step { in_roster && !roster_cached && known_hub[0] == hub_inc -> roster_cached = true; printf("cluster 0: stores the roster\n") }
	od
}
#endif

/* O3: when nothing happens any more, the job has ended. */
inline judge() {
	over = true;
	printf("judge: nothing happens any more\n");
	assert(grant == Final || grant == Waiting && revision == OFFERS);	/* O3: the job ended */
	assert(!alive[0] && !alive[1]);						/* O3: and nothing runs */
	assert(!adopted)							/* F7: no local job was adopted */
}

proctype Time() {
	do
	:: d_step { !healed -> healed = true; printf("==== healed: no faults from here on ====\n");
		losses = 0; dups = 0; cuts = 0; withdraws = 0; fails = 0; cancels = 0; deaths = 0; returns = 0;
		hub_restores = 0; member_restores = 0;
		end_session(0); end_session(1) }
	:: atomic { healed && !over && timeout -> judge() }
	od
}

init {
	atomic {
#ifdef LOCAL
		rec[0] = Foreign;
#endif
		run Hub();
		run Streams(0); run Streams(1);
		run Member(0); run Member(1);
#ifdef ROSTER
		run Roster();
#endif
		run Time()
	}
}
