/*
 * on_partition: fence (F11). Cluster 0 holds a job; when it has been silent for
 * LOST_AFTER ticks the hub gives the job to cluster 1. Ages count from the
 * sending of a heartbeat.
 *
 *   age 0, 1, 2  below 0.5 × lost_after: a start is allowed
 *   age 4        0.8 × lost_after: dead, so time may not go on while a process lives
 *   age 5        lost_after: the hub acts
 */
#define LOST_AFTER 5
#define FRESH      3	/* 0.5 × 5 = 2.5 */
#define EXPIRED    LOST_AFTER
#ifdef NO_F11_DEATH	/* planted: the supervisor kills two ticks too late */
#define DEAD_BY    6
#else
#define DEAD_BY    4
#endif
#ifdef NO_F11_EARLY	/* planted: the hub acts as soon as the member must stop starting */
#define ACTS_AT    FRESH
#else
#define ACTS_AT    LOST_AFTER
#endif
#ifdef AT_MOST_ONCE
#define ONCE true
#else
#define ONCE false
#endif
#ifndef SLOW
#define SLOW 7		/* ticks in which a heartbeat, or its answer, is not in time */
#endif
#ifndef MOVES
#define MOVES 1		/* the uplink moves to another server of the member */
#endif
#ifndef LEADERS
#define LEADERS 1	/* another server of the hub becomes leader */
#endif
byte slow = SLOW, moves = MOVES, leaders = LEADERS;

byte member_age;	/* Uplink.age: of the last acknowledged heartbeat */
byte relay_age = 99;	/* a heartbeat's age on its way to the agent; 99: none */
byte agent_age;		/* as the agent and the supervisor know it */
byte hub_age;		/* Hub.silence: since the last heartbeat arrived */
byte beat_age = 99;	/* a heartbeat under way */
byte ack_age = 99;	/* an acknowledgement under way: the age of its heartbeat */
bool holds = true;	/* cluster 0 holds the grant */
bool acted;		/* the hub has given the job to cluster 1 */
bool alive[2], started;

#define older(a)  if :: a < EXPIRED + 2 -> a++ :: else fi
#define newest(to, a) if :: a < to -> to = a :: else fi
#ifdef NO_F11_SENDING	/* planted: the age counts from the answer */
#define age_of_ack 0
#else
#define age_of_ack ack_age
#endif
#ifdef NO_F11_RELAY	/* planted: the age is not passed on, so the agent counts from the arrival */
#define age_of_relay 0
#else
#define age_of_relay relay_age
#endif

proctype Hub() {
	do
	/* Hub.heartbeat. A cluster that was fenced has to say hello first. */
	:: d_step { beat_age < 99 ->
		if
#ifdef NO_F11_ANSWER	/* planted: a fenced cluster's heartbeats are acknowledged */
		:: true -> hub_age = 0; ack_age = beat_age
#else
		:: !acted -> hub_age = 0; ack_age = beat_age
		:: acted -> printf("hub: refuses a heartbeat\n")
#endif
		fi;
		beat_age = 99 }
	/* Hub.fence */
	:: d_step { !acted && hub_age >= ACTS_AT -> acted = true; printf("hub: cluster 0 is silent\n");
		if
		:: ONCE && true -> printf("hub: the job is lost\n")
		:: !ONCE -> printf("cluster 1: STARTS the job\n");
			assert(!alive[0]);	/* O7: no overlap */
			alive[1] = true
		fi }
	/* Hub.lead: a new leader counts from the beginning. */
	:: d_step { leaders > 0 && !acted -> leaders--; printf("hub: another leader\n");
#ifdef NO_F11_LEADER	/* planted: it takes a cluster it has not heard for silent */
		hub_age = LOST_AFTER
#else
		hub_age = 0
#endif
		}
	od
}

proctype Cluster() {
	do
	/* Uplink.acknowledged, and on to the agents */
	:: d_step { ack_age < 99 -> newest(member_age, age_of_ack); ack_age = 99; relay_age = member_age }
	:: d_step { relay_age < 99 ->
		if :: agent_age < FRESH || !alive[0] -> newest(agent_age, age_of_relay) :: else fi;
		relay_age = 99 }
	/* seat.start */
#ifdef NO_F11_START	/* planted: a start does not look at the age */
	:: d_step { holds && !alive[0] && !started ->
#else
	:: d_step { holds && !alive[0] && !started && agent_age < FRESH ->
#endif
		printf("cluster 0: STARTS the job, age %d\n", agent_age);
		assert(!alive[1]);		/* O7: no overlap */
		assert(!(ONCE && acted));	/* A1: a lost job is not started */
		alive[0] = true; started = true }
	/* the supervisor kills; it has to before the time passes */
	:: d_step { alive[0] && agent_age >= FRESH -> alive[0] = false; printf("cluster 0: the process is killed\n") }
	:: d_step { alive[0] -> alive[0] = false; started = false; printf("cluster 0: an attempt fails\n") }
	/* Uplink.move: another server takes the uplink over. It has no answer yet. */
	:: d_step { moves > 0 -> moves--; ack_age = 99; printf("cluster 0: the uplink moves\n");
#ifdef NO_F11_MOVED	/* planted: the new server counts from its own start */
		member_age = 0; relay_age = 0
#else
		member_age = EXPIRED
#endif
		}
	od
}

inline tick() {
	older(member_age); older(agent_age); older(hub_age);
	if :: relay_age < 99 -> older(relay_age) :: else fi;
	if :: beat_age < 99 -> older(beat_age) :: else fi;
	if :: ack_age < 99 -> older(ack_age) :: else fi
}
#define overdue (alive[0] && agent_age >= DEAD_BY)
#define stalled (slow == 0 && (beat_age < 99 || ack_age < 99))
proctype Time() {
	do
	:: atomic { !overdue && !stalled -> d_step { printf("-- tick --\n"); tick() };
		if
		:: beat_age == 99 -> beat_age = 0
		:: slow > 0 -> slow--
		:: slow > 0 -> slow--; beat_age = 99
		:: slow > 0 -> slow--; ack_age = 99
		fi }
	od
}

init { atomic { run Hub(); run Cluster(); run Time() } }
