/*
 * The size of a configuration. `run` sets these by -D.
 */
#ifndef NODES
#define NODES 1		/* 1 to 3, each with one device */
#endif
#ifndef JOBS
#define JOBS 1		/* 1 or 2, contending for the same devices */
#endif
#ifndef GANG
#define GANG 1		/* ranks of job 0; 2 needs two nodes. Job 1 has one rank */
#endif
#ifndef ATTEMPTS
#define ATTEMPTS 3	/* room for attempts of a job; running out of it is reported */
#endif

/* Budgets of faults: how often each may happen before the healing. */
#ifndef SLOW
#define SLOW 0		/* ticks in which a renewal, or its answer, does not get through */
#endif
#ifndef KILLS
#define KILLS 0		/* agent or supervisor killed, or the agent leaves */
#endif
#ifndef CRASHES
#define CRASHES 0	/* a node goes down and may come up again */
#endif
#ifndef LOSSES
#define LOSSES 0	/* a request given up and applied late or never; an agent that loses its session */
#endif
#ifndef TAKEOVERS
#define TAKEOVERS 0	/* 1: a successor takes over while the old leader goes on unaware */
#endif
#ifndef UNKNOWNS
#define UNKNOWNS 0	/* a commit of unknown outcome, applied late or never */
#endif
#ifndef CANCELS
#define CANCELS 0	/* 1: job 0 is cancelled at some time */
#endif
#ifndef WIPES
#define WIPES 0		/* an agent comes back with an empty directory: another instance */
#endif
#ifndef REVOKES
#define REVOKES 0	/* a node is revoked: its session is cut; it may join again at any time */
#endif
/* AT_MOST_ONCE: a lost job 0 is final. GONE: node 0 may stay away if it is down at the healing. */

byte slow = SLOW, kills = KILLS, crashes = CRASHES, losses = LOSSES, takeovers = TAKEOVERS;
byte unknowns = UNKNOWNS, cancels = CANCELS, wipes = WIPES;
#if REVOKES > 0
byte revokes = REVOKES;
#endif
bool healed;	/* no faults from here on, and whoever can act does */
bool over;	/* the judge has spoken */

/*
 * Time in ticks. Ages count from the sending of the last acknowledged renewal.
 * The order is that of rule 3, with a lost_after of three ticks and a TTL of two:
 *
 *   age 0, 1   below 0.5 × lost_after: claim and spawn are allowed
 *   age 2      the supervisor has decided; dead by 0.8 × lost_after = 2.4 ticks,
 *              so time may not go on to 3 while the process lives
 *   age 3      lost_after: the earliest void
 *
 * PATIENT is a job whose lost_after is three times the TTL: its process may
 * outlive the session by far. DEFAULTS has the proportions of the defaults: a
 * TTL of 20 s and a lost_after of 25 s, in ticks of 5 s. EQUAL is a lost_after
 * that equals the TTL, the shortest that is accepted: the Reaper does not wait.
 */
#if defined(DEFAULTS)
#define TTL 4
#elif defined(EQUAL)
#define TTL 3
#else
#define TTL 2
#endif
#if defined(DEFAULTS)
#define LOST_AFTER 5
#define FRESH      3	/* 0.5 × 5 = 2.5 */
#define DEAD_BY    4	/* 0.8 × 5 */
#elif defined(PATIENT)
#define LOST_AFTER 6
#define FRESH      3	/* fresh below this age */
#define DEAD_BY    4	/* 0.8 × 6 = 4.8 */
#else
#define LOST_AFTER 3
#define FRESH      2
#define DEAD_BY    2
#endif
#define EXPIRED LOST_AFTER	/* ages are counted no further */

#ifdef LATE_DEADLINE	/* planted: the supervisor kills a tick too late */
#define KILLED_BY (DEAD_BY + 1)
#else
#define KILLED_BY DEAD_BY
#endif

#ifdef EARLY_VOID	/* planted: the Reaper does not wait lost_after − TTL */
#define PATIENCE 0
#else
#define PATIENCE (LOST_AFTER - TTL)
#endif

/* How long the Reaper waits for a node. A session that was cut was not silent
 * when it ended: all of lost_after is left. */
#if REVOKES > 0
#ifdef CUT_AS_SILENT	/* planted: it is taken for one that has expired */
#define patience(n) PATIENCE
#else
#define patience(n) (session_cut[n] -> LOST_AFTER : PATIENCE)
#endif
#define longest_patience(n) LOST_AFTER
#else
#define patience(n) PATIENCE
#define longest_patience(n) (LOST_AFTER - TTL)
#endif

#ifdef FROM_ANSWER	/* planted: the deadline counts from the answer, not from the sending */
#define FROM_ANSWER_BUG 1
#else
#define FROM_ANSWER_BUG 0
#endif

#ifdef CODE_CLEAN_REPORT	/* as found in the code */
#define CLEAN_REPORT
#endif
