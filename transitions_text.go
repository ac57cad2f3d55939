package ares

import "fmt"

// nominatedMessage returns the event text of a nomination.
func nominatedMessage(n *Nomination) string {
	jobs := "1 job is"
	if len(n.Victims) != 1 {
		jobs = fmt.Sprintf("%d jobs are", len(n.Victims))
	}
	ranks := "1 rank"
	if len(n.Seats) != 1 {
		ranks = fmt.Sprintf("%d ranks", len(n.Seats))
	}
	return fmt.Sprintf("devices for %s are reserved: %s preempted (%s)", ranks, jobs, n.Why)
}

func placedMessage(seats []Seat) string {
	if len(seats) == 0 {
		return "placed"
	}
	msg := "placed on " + seats[0].Node
	if n := len(seats) - 1; n > 0 {
		seats := "seats"
		if n == 1 {
			seats = "seat"
		}
		msg += fmt.Sprintf(" and %d more %s", n, seats)
	}
	return msg
}

// restoredReason is the reason recorded for attempts that a restore ended.
const restoredReason = "the store was restored from a backup"
