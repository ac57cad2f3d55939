/*
 * Quota that is lent (F10): a tenant's quota of WHOLE GPUs and two members.
 * Member 0 and the hub may be restored from a backup. A message may be
 * late: one older message for each member stays under way beside the newest.
 */
#define WHOLE 2
#ifndef CHANGES
#define CHANGES 3	/* versions of a loan before the hub stops changing it */
#endif
#ifndef MEMBER_RESTORES
#define MEMBER_RESTORES 0
#endif
#ifndef HUB_RESTORES
#define HUB_RESTORES 0
#endif
byte member_restores = MEMBER_RESTORES, hub_restores = HUB_RESTORES;

/* loans/<tenant>/<cluster> at the hub */
byte lent[2], version[2], member_inc[2], hub_inc;
bool asking, answered[2];

/* tenants/<id> in the member */
byte limit[2], seen[2], inc[2], known_hub[2];
bool confirmed[2] = true;
byte use[2];	/* GPUs in use. A restore does not free them before lost_after has passed */

/* messages: the newest [c] and an older one [2 + c]; version 0 is none */
byte told[4], told_value[4], told_inc[4], told_hub[4];
bool told_lower[4];
byte reply[2], reply_value[2], reply_hub[2], reply_inc[2];

inline clear_told(m)  { told[m] = 0; told_value[m] = 0; told_inc[m] = 0; told_hub[m] = 0; told_lower[m] = false }
inline clear_reply(c) { reply[c] = 0; reply_value[c] = 0; reply_hub[c] = 0; reply_inc[c] = 0 }
inline tell(c, value, lower) {
	if
	:: told[c] > 0 && told[2 + c] == 0 -> told[2 + c] = told[c]; told_value[2 + c] = told_value[c]; told_inc[2 + c] = told_inc[c];
		told_hub[2 + c] = told_hub[c]; told_lower[2 + c] = told_lower[c]
	:: else
	fi;
	told[c] = version[c]; told_value[c] = value; told_inc[c] = member_inc[c]; told_hub[c] = hub_inc; told_lower[c] = lower
}
inline lend(c, value) {
	lent[c] = value;
	printf("hub: lends %d to cluster %d, version %d\n", value, c, version[c]);
	assert(lent[0] + lent[1] <= WHOLE)	/* O8: the loans */
}

/* Uplink.lent: Store.SetLoan in the member. */
#ifdef NO_F10_VERSION	/* planted: a member takes an older version */
#define is_newer(m, c) true
#else
#define is_newer(m, c) (told[m] > seen[c])
#endif
#ifdef NO_F10_INCARNATION	/* planted: a loan told to an earlier incarnation is taken */
#define is_for(m, c) true
#else
#define is_for(m, c) (told_inc[m] == inc[c])
#endif
#ifdef NO_F6_LOAN	/* planted: a loan of an earlier hub is taken */
#define is_of_hub(m, c) true
#else
#define is_of_hub(m, c) (told_hub[m] >= known_hub[c])
#endif
#ifdef NO_F10_USE	/* planted: the member answers its limit, not what is in use */
#define remains(c) limit[c]
#else
#define remains(c) (use[c] > limit[c] -> use[c] : limit[c])
#endif
inline take_told(m, k) {
	if
	:: is_newer(m, k) && is_for(m, k) && is_of_hub(m, k) ->
		limit[k] = told_value[m]; seen[k] = told[m];
		printf("cluster %d: its limit is %d, version %d\n", k, limit[k], seen[k]);
		if
		:: told_lower[m] -> reply[k] = told[m]; reply_value[k] = remains(k); reply_hub[k] = told_hub[m]; reply_inc[k] = inc[k]
		:: else
		fi
	:: else
	fi;
	clear_told(m)
}

/* Hub.lend: Store.Lend. */
proctype Lender(byte c) {
	do
#ifdef NO_F10_RAISE	/* planted: the member is told before the record is written */
	:: d_step { !asking && lent[0] + lent[1] < WHOLE && version[c] < CHANGES -> version[c]++; tell(c, lent[c] + 1, false) }
	:: d_step { told[c] == 0 && !asking && limit[c] > lent[c] && lent[0] + lent[1] < WHOLE -> lend(c, limit[c]) }
#else
	:: d_step { !asking && lent[0] + lent[1] < WHOLE && version[c] < CHANGES -> version[c]++; lend(c, lent[c] + 1); tell(c, lent[c], false) }
#endif
	:: d_step { !asking && lent[c] > 0 && version[c] < CHANGES -> version[c]++; tell(c, lent[c] - 1, true);
		printf("hub: asks cluster %d for one GPU, version %d\n", c, version[c]);
#ifdef NO_F10_LOWER	/* planted: the hub writes before the member has lowered its limit */
		lend(c, lent[c] - 1)
#endif
		}
#ifdef NO_F10_SILENT	/* planted: the loan of a silent member is lent again */
	:: d_step { !asking && lent[c] > 0 && version[c] < CHANGES -> version[c]++; lend(c, 0); printf("hub: cluster %d is silent\n", c) }
#endif
	/* Store.LoanAnswered */
	:: d_step { reply[c] > 0 && !asking ->
		if
#ifdef NO_F10_REPLY	/* planted: the hub takes an answer to an older request */
		:: true -> lend(c, reply_value[c])
#else
		:: reply[c] == version[c] && reply_hub[c] == hub_inc && reply_inc[c] == member_inc[c] -> lend(c, reply_value[c])
		:: else
#endif
		fi;
		clear_reply(c) }
	od
}

proctype Member(byte c) {
	do
	:: d_step { told[c] > 0 -> take_told(c, c) }
	:: d_step { told[2 + c] > 0 -> take_told(2 + c, c) }
	/* the engine, within tenants/<id> */
	:: d_step { use[c] < limit[c] -> use[c]++; printf("cluster %d: uses %d\n", c, use[c]);
		assert(use[0] + use[1] <= WHOLE) }	/* O8: the use */
	:: d_step { use[c] > 0 -> use[c]-- }
	/* Hub.hello, Hub.adoptLoans: every member tells the restored hub what it may use. */
	:: d_step { asking && confirmed[c] && !answered[c] -> known_hub[c] = hub_inc; answered[c] = true;
		lent[c] = (use[c] > limit[c] -> use[c] : limit[c]);
		version[c] = (version[c] > seen[c] -> version[c] : seen[c]);
		printf("cluster %d: answers the hub: %d\n", c, lent[c]) }
	/* Hub.hello of a new incarnation: the loan is told again, with a new version. */
	:: d_step { !confirmed[c] && use[c] == 0 && !asking -> confirmed[c] = true; known_hub[c] = hub_inc; member_inc[c] = inc[c];
		version[c]++; tell(c, lent[c], false); printf("hub: confirms cluster %d\n", c) }
	:: d_step { !confirmed[c] && use[c] == 0 && asking && !answered[c] -> confirmed[c] = true; known_hub[c] = hub_inc;
		answered[c] = true; member_inc[c] = inc[c]; lent[c] = limit[c]; printf("cluster %d: answers the hub: %d\n", c, limit[c]) }
	od
}

byte kept_limit, kept_seen, kept_lent[2], kept_version[2], kept_inc[2];
bool kept0, kept;
proctype Faults() {
	do
	:: d_step { member_restores > 0 && !kept0 -> kept0 = true; kept_limit = limit[0]; kept_seen = seen[0]; printf("cluster 0: a backup is made\n") }
	:: d_step { member_restores > 0 && kept0 -> member_restores--; inc[0]++; confirmed[0] = false; seen[0] = kept_seen;
#ifdef NO_F10_RESTORE	/* planted: a restored member has the loan of its backup */
		limit[0] = kept_limit;
#else
		limit[0] = 0;
#endif
		kept_limit = 0; kept_seen = 0;
		printf("cluster 0: restored\n") }
	:: d_step { hub_restores > 0 && !kept -> kept = true; kept_lent[0] = lent[0]; kept_lent[1] = lent[1];
		kept_version[0] = version[0]; kept_version[1] = version[1]; kept_inc[0] = member_inc[0]; printf("hub: a backup is made\n") }
	:: d_step { hub_restores > 0 && kept -> hub_restores--; hub_inc++;
		lent[0] = kept_lent[0]; lent[1] = kept_lent[1]; version[0] = kept_version[0]; version[1] = kept_version[1];
		member_inc[0] = kept_inc[0];
		kept_lent[0] = 0; kept_lent[1] = 0; kept_version[0] = 0; kept_version[1] = 0; kept_inc[0] = 0;
#ifndef NO_F6_LEND	/* planted: a restored hub lends before all have answered */
		asking = true;
#endif
		printf("hub: restored\n") }
	:: d_step { asking && answered[0] && answered[1] -> asking = false; answered[0] = false; answered[1] = false;
		printf("hub: all have answered\n"); assert(lent[0] + lent[1] <= WHOLE) }	/* O8 */
	od
}

init { atomic { run Lender(0); run Lender(1); run Member(0); run Member(1); run Faults() } }
