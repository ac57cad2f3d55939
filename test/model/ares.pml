/*
 * Ares: session, claim, fence, commit, void, release.
 *
 * A model, for Spin, of what the Go code does between the store (etcd), two
 * leaders, one agent and one supervisor per node, and the job's process. It is
 * meant to be read beside the code: each step names the function it stands for.
 * README.md says what is left out, how time works, and how to read a trail.
 *
 *   parameters.pml  configuration, planted bugs, time
 *   store.pml       the records, and the transactions on them
 *   leader.pml      Loop and Reaper, for a leader and its successor
 *   node.pml        agent, supervisor, process, and what may befall them
 *   ares.pml        clients, the network, time, and the judge
 *
 * There is no fairness before `healed`: whoever may act may also not act. So a
 * stopped process, a cut link, a lagging watch and a lost dispatch need no step
 * of their own: each is a step that is not taken, or taken late.
 */
#include "parameters.pml"
#include "store.pml"
#include "leader.pml"
#include "node.pml"

/* A user asks for the end of a job, at any time. Desk.Cancel, Run.RequestStop. */
proctype Client() {
	byte j;
	do
	:: d_step { cancels > 0 && !final(phase[0]) -> cancels--; j = 0; request_cancel(j);
		printf("client: job %d is to be cancelled\n", j) }
	od
}

/* A claim whose caller has given up, or died, is still under way and may be
 * applied at any later time, or never. */
#define LATE(k) :: d_step { late_claim[k] > 0 -> n = k; apply_late_claim(n); n = 0 }
#ifdef CLEAN_REPORT
#define CLEAN(k) :: d_step { clean_report[k] > 0 -> n = k; apply_clean_report(n); n = 0 }
#else
#define CLEAN(k)
#endif

proctype Network() {
	byte n;
	do
	LATE(0) CLEAN(0)
#if NODES > 1
	LATE(1) CLEAN(1)
#endif
#if NODES > 2
	LATE(2) CLEAN(2)
#endif
	od
}

/* How far renewals got during one tick, for a node whose agent has a session. */
#define RENEWED    0	/* arrived, and the answer too */
#define UNANSWERED 1	/* arrived; the answer was lost */
#define SILENT     2	/* none arrived */
#define DELAYED    3	/* arrived a tick ago, answered only now */

#define older(age)         age = (age < EXPIRED -> age + 1 : EXPIRED)
#define is_renewing(n)     (up[n] && agent_session[n] && session_current[n])

/* One tick for one node. An acknowledged renewal reaches the supervisor too,
 * unless it has decided: Agent.acknowledged, supervisor.renew. */
inline pass(n, how) {
	if
	:: how == RENEWED || how == UNANSWERED -> session_age[n] = 0
	:: how == DELAYED -> session_age[n] = 1
	:: else -> older(session_age[n])
	fi;
	if :: life[n] == Starting -> older(spec_age[n]) :: else fi;
	if
	:: how == RENEWED || how == DELAYED ->
		acknowledged(n, (how == DELAYED && !FROM_ANSWER_BUG -> 1 : 0));
		if :: process_alive[n] && !renewable(n) -> older(process_age[n]) :: else fi
	:: else ->
		older(agent_age[n]);
		if :: process_alive[n] -> older(process_age[n]) :: else fi
	fi;
	if :: arrival_age[n] < LOST_AFTER -> arrival_age[n]++ :: else fi
}

inline timers_run(n) {
	if :: timer[TIMER(0, n)] > 0 && timer[TIMER(0, n)] <= longest_patience(n) -> timer[TIMER(0, n)]++ :: else fi;
	if :: timer[TIMER(1, n)] > 0 && timer[TIMER(1, n)] <= longest_patience(n) -> timer[TIMER(1, n)]++ :: else fi
}

/* Before healing each node may be renewed or not, as far as the budget goes. A
 * node without an agent or a session is silent for nothing. */
inline choose(n, how) {
	if
	:: !is_renewing(n) -> how = SILENT
	:: is_renewing(n) && (life[n] != Starting || slow == 0) -> how = RENEWED
	:: is_renewing(n) && life[n] == Starting && slow > 0 -> how = RENEWED; slow--;
		printf("node %d: its start hangs\n", n)
	:: is_renewing(n) && slow > 0 -> how = SILENT; slow--;
		printf("node %d: is not heard of\n", n)
	:: is_renewing(n) && slow > 0 -> how = UNANSWERED; slow--;
		printf("node %d: its renewal arrives, the answer does not\n", n)
	:: is_renewing(n) && slow > 0 -> how = DELAYED; slow--;
		printf("node %d: the answer to its renewal comes a tick late\n", n)
	fi
}
byte how[NODES];	/* zero between ticks */

/* The macros below speak of all nodes. */
#if NODES == 1
#define EVERY(p)    (p(0))
#define SOME(p)     (p(0))
#define EACH(p)     p(0)
#elif NODES == 2
#define EVERY(p)    (p(0) && p(1))
#define SOME(p)     (p(0) || p(1))
#define EACH(p)     p(0); p(1)
#else
#define EVERY(p)    (p(0) && p(1) && p(2))
#define SOME(p)     (p(0) || p(1) || p(2))
#define EACH(p)     p(0); p(1); p(2)
#endif

/* The promise of rule 3: a supervisor has killed its job before time goes on. */
#ifdef NO_DEADLINE
#define overdue(n) false
#else
#define overdue(n) (process_alive[n] && process_age[n] >= KILLED_BY)
#endif

#define may_pass(n) (!overdue(n) && (life[n] != Starting || !is_renewing(n) || slow > 0))

/* What only time can change, once nothing else moves. */
#define waits_for_time(n) (session[n] && !is_renewing(n) \
	|| process_alive[n] && !is_renewing(n) && process_age[n] < EXPIRED \
	|| is_renewing(n) && agent_age[n] > 0 \
	|| arrival_age[n] < LOST_AFTER && up[n] \
	|| runs(0, n) || runs(1, n))
#define runs(i, n) (timer[TIMER(i, n)] > 0 && timer[TIMER(i, n)] <= longest_patience(n))

/* O3 and R1: nothing is stuck. Every job is final, nothing lives, and no living
 * node keeps a device for a job that is over. A job that only lacks room for
 * another attempt in this configuration is not stuck either. */
#define has_ended(j) (final(phase[j]) || phase[j] == Pending && unsettled[j] == 0 && placed[j] == ATTEMPTS)

#define nothing_left(n) (!process_alive[n] && (seat_on[n] == 0 || gone[n]))

inline judge() {
	over = true;
	printf("judge: nothing happens any more\n");
	assert(has_ended(0));			/* O3: the job ended */
#if JOBS > 1
	assert(has_ended(1));			/* O3 */
#endif
	assert(EVERY(nothing_left))		/* O3: and its devices are free again */
}

#define chosen(n)    choose(n, how[n])
#define one_tick(n)  pass(n, how[n]); timers_run(n); how[n] = 0
#define as_usual(n)  how[n] = (is_renewing(n) -> RENEWED : SILENT)

proctype Time() {
	do
	:: atomic { !healed && EVERY(may_pass) -> printf("-- tick --\n");
		EACH(chosen);
		d_step { EACH(one_tick) } }
	/* From some time on no fault happens any more; a node that is down then may
	 * stay away for ever where the configuration has enough others. */
	:: atomic { !healed ->
		printf("==== healed: no faults from here on ====\n");
		healed = true;
		slow = 0; kills = 0; crashes = 0; losses = 0; takeovers = 0; unknowns = 0; wipes = 0;
#if REVOKES > 0
		revokes = 0;
#endif
		if
		:: true
#ifdef GONE
		:: !up[0] -> gone[0] = true; printf("node 0: stays away\n")
#endif
		fi }
	/* After healing time passes only when nobody has anything to do: messages
	 * are fast against lost_after. When time changes nothing either, all that
	 * was going to happen has happened. */
	:: atomic { healed && !over && timeout ->
		if
		:: SOME(waits_for_time) -> d_step { printf("-- tick --\n"); EACH(as_usual); EACH(one_tick) }
		:: else -> judge()
		fi }
	od
}

init {
	atomic {
		run Leader(0);
#if TAKEOVERS > 0
		run Leader(1);
#endif
		run Node(0);
#if NODES > 1
		run Node(1);
#endif
#if NODES > 2
		run Node(2);
#endif
		run Client();
		run Network();
		run Time()
	}
}

#ifdef ENDS
/* After healing every run ends, without any assumption of fairness: nobody goes
 * round in circles. */
ltl ends { [] (healed -> <> over) }
#endif
