/*
 * The size of a configuration of grants.pml. `run` sets these by -D. There is
 * one job and there are two clusters. Cluster 0 suffers the faults that
 * concern a whole cluster; cluster 1 keeps its store.
 */
#ifndef OFFERS
#define OFFERS 3	/* room for epochs; running out of it is not a lost job */
#endif

/* Budgets: how often each may happen before the healing. */
#ifndef LOSSES
#define LOSSES 0	/* a message, or an answer, is lost */
#endif
#ifndef DUPS
#define DUPS 0		/* a message is applied and stays under way: a late retry */
#endif
#ifndef CUTS
#define CUTS 0		/* a session ends; the member says hello again */
#endif
#ifndef RETURNS
#define RETURNS 0	/* a member gives a job back */
#endif
#ifndef WITHDRAWS
#define WITHDRAWS 0	/* the hub's leader takes an offer back */
#endif
#ifndef FAILS
#define FAILS 0		/* an attempt fails and may be repeated */
#endif
#ifndef CANCELS
#define CANCELS 0	/* 1: the job is cancelled at some time */
#endif
#ifndef DEATHS
#define DEATHS 0	/* cluster 0 is declared dead while it lives */
#endif
#ifndef MEMBER_RESTORES
#define MEMBER_RESTORES 0	/* cluster 0 is restored from a backup of any age */
#endif
#ifndef HUB_RESTORES
#define HUB_RESTORES 0	/* the hub is restored from a backup of any age */
#endif
/* AT_MOST_ONCE: the job's mode. LOCAL: the job's ID exists in cluster 0 with
 * another origin. GONE: cluster 0 may burn down; it is then declared dead.
 * RACE: the member's Loop decides at one time and commits at a later time.
 * ROSTER: cluster 1 joins while the model runs. */

#ifdef AT_MOST_ONCE
#define ONCE true
#else
#define ONCE false
#endif

byte losses = LOSSES, dups = DUPS, cuts = CUTS, returns = RETURNS, withdraws = WITHDRAWS;
byte fails = FAILS, cancels = CANCELS, deaths = DEATHS;
byte member_restores = MEMBER_RESTORES, hub_restores = HUB_RESTORES;
#ifdef NO_F2_TIMER
byte timers = 1;
#endif
bool healed;	/* no faults from here on, and whoever can act does */
bool over;	/* the judge has spoken */

/* F12: a token is epoch × TOKENS + the number of the attempt under this grant.
 * The code has 2¹⁶ and 1,000 in place of 8 and 3. */
#define TOKENS 8
#ifdef NO_F12_RESTORE	/* planted: a restore does not raise the number of the attempt */
#define RESTORE_ADDS 0
#else
#define RESTORE_ADDS 3
#endif
