/*
 * One identity, one store (F13). Store 0 is the member's. At some time it is
 * copied (or rolled back, which is a copy whose original never speaks again)
 * without `ares restore`. Both stores then have the same name, incarnation and
 * cookie. What the original owned at that moment is outside of the promise;
 * what is bound later must be started by one store only.
 */
#ifndef SESSIONS
#define SESSIONS 5	/* cookies */
#endif
byte drawn = 1;			/* cookies so far */
byte current = 1, next;		/* clusters/<name>: confirmed and pending */
byte highest;			/* the highest revision seen */
byte speaker = 9;		/* the store at the other end of the open session */
bool refused[2];		/* alert: copy or rollback */

byte cookie[2] = 1;		/* federation/cookie */
byte rev[2];			/* the store's revision */
bool is_copy;			/* store 1 exists */
byte losses = 1;

byte hello[2], hello_rev[2];	/* cookie + revision, under way */
byte fresh[2];			/* the new cookie, on its way to the member */
byte confirm[2];		/* the member has written it */

/* one job, bound after the copy was made */
byte intent[2];			/* federation/claims/<job>: written before the claim */
bool bound, answer[2], at[2], started[2];
bool healed, over;

#ifdef NO_F13_COOKIE	/* planted: the cookie is not compared */
#define is_known(c) true
#else
#define is_known(c) (c == current || c == next)
#endif
#ifdef NO_F13_REVISION	/* planted: the revision is not compared */
#define is_ahead(r) true
#else
#define is_ahead(r) (r >= highest)
#endif
#ifdef NO_F13_CLAIM	/* planted: a bound job without a written claim is created all the same */
#define has_claim(s) true
#else
#define has_claim(s) (intent[s] > 0)
#endif

proctype Hub(byte s) {
	do
	/* Hub.hello: a new session draws a cookie and ends the session before it. */
	:: d_step { hello[s] > 0 ->
		if
		:: is_known(hello[s]) && is_ahead(hello_rev[s]) && drawn < SESSIONS ->
			highest = hello_rev[s];
			if :: hello[s] == next && next > 0 -> current = next :: else fi;
			drawn++; next = drawn; fresh[s] = drawn; speaker = 9;
#ifdef NO_F13_STEPS	/* planted: the cookie is renewed in one step */
			current = drawn; next = 0;
#endif
			printf("hub: store %d says hello, new cookie %d\n", s, drawn)
		:: is_known(hello[s]) && is_ahead(hello_rev[s]) && drawn == SESSIONS
		:: else -> refused[s] = true; printf("hub: refuses store %d: copy or rollback\n", s)
		fi;
		hello[s] = 0; hello_rev[s] = 0 }
	/* Hub.confirm: the session is open. */
	:: d_step { confirm[s] > 0 ->
		if
		:: confirm[s] == next || confirm[s] == current && next == 0 -> current = confirm[s]; next = 0; speaker = s;
			printf("hub: the session of store %d is open\n", s);
			if
			:: bound && !at[s] && has_claim(s) -> at[s] = true; printf("store %d: creates the bound job\n", s)
			:: else
			fi
		:: else
		fi;
		confirm[s] = 0 }
	/* Store.Bind: only in the open session. */
	:: d_step { is_copy && !bound && intent[s] > 0 &&
#ifdef NO_F13_SESSION	/* planted: an earlier session is served beside the new one */
		true ->
#else
		speaker == s ->
#endif
		bound = true; answer[s] = true; printf("hub: binds the job to store %d\n", s) }
	/* Hub.reports: a heartbeat tells the revision. */
	:: d_step { speaker == s && rev[s] > highest -> highest = rev[s] }
	od
}

proctype Store(byte s) {
	do
	/* Uplink.claim: after the copy was made; what it owned before is a stated limit. */
	:: d_step { is_copy && speaker == s && intent[s] == 0 && !bound -> intent[s] = 1; rev[s] = 1 }
	:: d_step { (s == 0 || is_copy) && !refused[s] && hello[s] == 0 && fresh[s] == 0 && confirm[s] == 0 && speaker != s ->
		hello[s] = cookie[s]; hello_rev[s] = rev[s] }
	:: d_step { fresh[s] > 0 -> cookie[s] = fresh[s]; confirm[s] = fresh[s]; fresh[s] = 0 }
	:: d_step { fresh[s] > 0 && losses > 0 -> losses--; fresh[s] = 0; printf("store %d: the new cookie is lost\n", s) }
	:: d_step { confirm[s] > 0 && losses > 0 -> losses--; confirm[s] = 0; printf("store %d: its confirmation is lost\n", s) }
	/* Uplink.bound */
	:: d_step { answer[s] -> answer[s] = false; at[s] = true }
	:: d_step { answer[s] && losses > 0 -> losses--; answer[s] = false; printf("store %d: the answer to its claim is lost\n", s) }
	:: d_step { at[s] && !started[s] -> started[s] = true; printf("store %d: STARTS the job\n", s);
		assert(!started[1 - s]) }	/* O7: one of the two stores starts it */
	od
}

proctype World() {
	do
	:: d_step { !is_copy && !healed -> is_copy = true; cookie[1] = cookie[0]; rev[1] = rev[0]; printf("the store is copied\n") }
	:: d_step { !healed && speaker < 9 -> speaker = 9; printf("the session ends\n") }
	:: d_step { !healed -> healed = true; losses = 0 }
	:: atomic { healed && !over && timeout -> over = true;
		assert(is_copy || !refused[0]) }	/* O3: a member that was not copied is never refused */
	od
}

init { atomic { run Hub(0); run Hub(1); run Store(0); run Store(1); run World() } }
