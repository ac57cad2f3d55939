/*
 * A store that is put back to an earlier time without `ares restore`: two servers, their marks, the record of a rollback, and
 * agents that write. Each d_step is one read or one transaction of the store, or a step of one server.
 */
#ifndef ROOM
#define ROOM 3		/* revisions that can be written between two restores */
#endif
#ifndef SAVES
#define SAVES 1		/* the disk of the store is saved */
#endif
#ifndef ROLLBACKS
#define ROLLBACKS 1	/* the saved disk is put back */
#endif
#ifndef RESTORES
#define RESTORES 0	/* `ares restore` */
#endif
#ifndef CRASHES
#define CRASHES 1	/* a server is killed */
#endif
#ifndef EXPIRES
#define EXPIRES 0	/* the lease of a leader that lives expires */
#endif
#define BUMP 8		/* how much a restore raises the revision: more than ROOM and the records of rollbacks */
byte saves = SAVES, rollbacks = ROLLBACKS, restores = RESTORES, crashes = CRASHES, expires = EXPIRES;
bool over;

/* The store. `incarnation` is its identity (Store.Identity); a restore changes it. */
byte rev, incarnation;
byte leader, leader_rev;	/* loop/leader: the server's number + 1, and CreateRevision */
byte plan;			/* loop/plan: ModRevision */
byte note;			/* loop/rollback: the incarnation in its key + 1, 0 if there is none */
bool has_disk;			/* the saved disk, and what is on it */
byte disk_rev, disk_incarnation, disk_leader, disk_leader_rev, disk_plan, disk_note;

/* What the properties need; nobody in the model reads it. */
bool issued[24];	/* fencing tokens */
bool safe = true;	/* the store was not put back, or that was recorded, or it was restored since */
bool fresh = true;	/* the store was not put back, or it was restored since */
bool led;		/* there was a leader since the last restore */
bool behind[2];		/* the store was behind the mark of this server at its start */

/* The servers. */
bool up[2], refuses[2];
byte mark[2];			/* revision.mark; a mark that is written late is a comparison that was not made */
byte unnoted[2];		/* noticed, but not recorded yet: the incarnation + 1 */
byte candidate[2];		/* campaigns: the incarnation that was read + 1 */
byte term[2];			/* Leadership.Revision, 0 if it does not lead */
bool compared[2];		/* of this term: readPlan and beforeLeading are done */
byte my_plan[2];

#define has_room (rev < incarnation * BUMP + ROOM)

#ifdef NO_BINDING	/* planted: the record does not belong to an identity */
#define key_of(i) 1
#else
#define key_of(i) (i + 1)
#endif
#ifdef NO_READ		/* planted: the record is not read with the identity */
#define is_noted false
#else
#define is_noted (note == key_of(incarnation))
#endif
#ifdef NO_COMPARE	/* planted: the transaction that creates the leader's key does not compare the record */
#define may_lead(s) true
#else
#define may_lead(s) (candidate[s] == incarnation + 1 && note != key_of(incarnation))
#endif

inline write() { rev++ }

/* Server.checkMark: one linearizable read of the identity, the record and the revision. */
inline check_mark(s) {
	if
	:: is_noted -> refuses[s] = true
	:: !is_noted && rev < mark[s] -> refuses[s] = true;
		if :: unnoted[s] == 0 -> unnoted[s] = incarnation + 1; printf("server %d: notices that revision %d is gone\n", s, mark[s]) :: else fi
	:: else -> mark[s] = rev
	fi
}

proctype Server(byte s) {
	up[s] = true;
	do
	/* Server.register: it compares, and then writes its tokens. */
	:: d_step { !up[s] -> up[s] = true; behind[s] = (rev < mark[s]);
		printf("server %d: starts with the mark %d at revision %d\n", s, mark[s], rev);
#ifdef LATE_COMPARE	/* planted: it writes before it compares */
		if :: has_room -> write() :: else fi;
		check_mark(s)
#else
		check_mark(s);
		if :: has_room -> write() :: else fi
#endif
		}
	:: d_step { up[s] && (is_noted && !refuses[s] || !is_noted && (rev > mark[s] || rev < mark[s] && (!refuses[s] || unnoted[s] == 0))) ->
		check_mark(s) }
	/* Server.noteRollback, Store.NoteRollback */
	:: d_step { up[s] && unnoted[s] > 0 ->
		if
		:: unnoted[s] == incarnation + 1 && note != key_of(incarnation) -> safe = true; write();
#ifndef NO_RECORD	/* planted: the server keeps it for itself, as before there was the record */
			note = key_of(incarnation);
#endif
#if !defined(NO_DEPOSE) && !defined(NO_RECORD)	/* planted: the transaction leaves the leader's key */
			leader = 0;
#endif
			printf("server %d: records the rollback at revision %d\n", s, rev)
		:: else
		fi;
		unnoted[s] = 0 }
	/* Store.campaign: it reads the identity, and then tries to create the leader's key. */
	:: d_step { up[s] && !refuses[s] && term[s] == 0 && candidate[s] == 0 && leader == 0 && !is_noted -> candidate[s] = incarnation + 1 }
	:: d_step { up[s] && candidate[s] > 0 ->
		if
		:: leader == 0 && may_lead(s) && (has_room || !led) -> write(); led = true; leader = s + 1; leader_rev = rev; term[s] = rev;
			printf("server %d: leads since revision %d\n", s, rev)
		:: else
		fi;
		candidate[s] = 0 }
	/* Store.readPlan, Server.beforeLeading */
#ifdef NO_BEFORE		/* planted: a term begins without a comparison */
	:: d_step { up[s] && term[s] > 0 && !compared[s] && !refuses[s] -> my_plan[s] = plan; compared[s] = true }
#else
	:: d_step { up[s] && term[s] > 0 && !compared[s] && !refuses[s] -> my_plan[s] = plan; check_mark(s); compared[s] = !refuses[s] }
#endif
	/* Store.Commit: a fencing token is issued. */
	:: d_step { up[s] && compared[s] && has_room ->
		if
		:: leader == s + 1 && leader_rev == term[s] && plan == my_plan[s] ->
			write(); plan = rev; my_plan[s] = rev;
			printf("server %d: issues the token %d\n", s, rev);
			assert(!(safe && issued[rev]));	/* O9: no token is issued twice once the rollback is recorded */
			assert(!behind[s]);		/* M1: a server whose mark was ahead at its start issues none */
			issued[rev] = true
		:: else -> term[s] = 0; my_plan[s] = 0; compared[s] = false
		fi }
	/* Server.refuseToLead: it resigns. */
	:: d_step { up[s] && refuses[s] && term[s] > 0 ->
		if :: leader == s + 1 && leader_rev == term[s] -> leader = 0 :: else fi;
		term[s] = 0; my_plan[s] = 0; compared[s] = false }
	od
}

inline stop(s) {
	up[s] = false; refuses[s] = false; unnoted[s] = 0; candidate[s] = 0;
	term[s] = 0; my_plan[s] = 0; compared[s] = false; behind[s] = false
}

proctype World() {
	do
	/* Agents open sessions, claim and report. */
	:: d_step { has_room -> write() }
	/* A lease expires: of a dead leader always, of another one if its renewals do not arrive. */
	:: d_step { leader > 0 && !up[leader - 1] -> leader = 0 }
	:: d_step { leader > 0 && expires > 0 -> expires--; leader = 0; printf("the leader's lease expires\n") }
	:: d_step { up[0] && crashes > 0 -> crashes--; stop(0); printf("server 0: is killed\n") }
	:: d_step { up[1] && crashes > 0 -> crashes--; stop(1); printf("server 1: is killed\n") }
	:: d_step { saves > 0 -> saves--; has_disk = true; disk_rev = rev; disk_incarnation = incarnation; disk_leader = leader;
		disk_leader_rev = leader_rev; disk_plan = plan; disk_note = note; printf("the disk is saved at revision %d\n", rev) }
	:: d_step { has_disk && rollbacks > 0 -> rollbacks--; rev = disk_rev; incarnation = disk_incarnation; leader = disk_leader;
		leader_rev = disk_leader_rev; plan = disk_plan; note = disk_note;
		if :: rollbacks == 0 -> has_disk = false; disk_rev = 0; disk_incarnation = 0; disk_leader = 0; disk_leader_rev = 0; disk_plan = 0; disk_note = 0 :: else fi;
		safe = false; fresh = false; printf("the store is put back to revision %d\n", rev) }
	/* ares restore, of a backup of the current state, with every server stopped. */
	:: d_step { restores > 0 && !fresh -> restores--; stop(0); stop(1);
		incarnation = RESTORES - restores; rev = incarnation * BUMP; leader = 0; safe = true; fresh = true; led = false;
#ifndef NO_REMOVE	/* planted: a restore leaves the record */
		note = 0;
#endif
		printf("the store is restored with revision %d\n", rev) }
	:: atomic { !over && timeout -> over = true;
		assert(!fresh || led) }	/* O3: a store that was not put back, or was restored, gets a leader */
	od
}

init { atomic { run Server(0); run Server(1); run World() } }
