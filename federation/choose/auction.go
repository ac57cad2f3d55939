package choose

import (
	"cmp"
	"slices"
	"time"

	ares "github.com/ares-scheduler/ares"
)

// BidWindow is how long the hub waits for more bids after the first one.
const BidWindow = 150 * time.Millisecond

// Bid is a cluster's answer to an offer.
type Bid struct {
	Cluster  string
	StartsAt time.Time // when the cluster expects to start the job; not after `now` if at once
	Score    int       // of the placement, from 0 to 1000; higher is better
	// PriceMicros is the price of an hour of one device; 0 keeps the price of the summary.
	PriceMicros int64
}

// Auction collects the bids for one offer. The best-ranked cluster wins at once if it can start the job now. Otherwise the
// bid with the lowest cost wins when BidWindow has passed since the first bid, or when every candidate has made one.
type Auction struct {
	offer Offer
	bids  []Bid
	first time.Time
}

// NewAuction returns an auction without bids.
func NewAuction(o Offer) *Auction { return &Auction{offer: o} }

// OfferOf returns an offer to clusters of which nothing is known but their order, the best first. The earliest start wins its
// auction, and the better place in the offer if two starts are equal.
func OfferOf(job ares.JobID, clusters []string) Offer {
	o := Offer{Job: job}
	for _, name := range clusters {
		o.Candidates = append(o.Candidates, Candidate{Cluster: name, Quote: Quote{ValueMicros: 3_600_000_000}})
	}
	return o
}

// Add adds a bid. A later bid of the same cluster replaces its earlier one. The bid of a cluster without an offer is
// ignored.
func (a *Auction) Add(b Bid, now time.Time) {
	if a.place(b.Cluster) < 0 {
		return
	}
	if len(a.bids) == 0 {
		a.first = now
	}
	a.bids = slices.DeleteFunc(a.bids, func(o Bid) bool { return o.Cluster == b.Cluster })
	a.bids = append(a.bids, b)
}

// Closes returns when the auction ends at the latest, or the zero time if there is no bid yet.
func (a *Auction) Closes() time.Time {
	if len(a.bids) == 0 {
		return time.Time{}
	}
	return a.first.Add(BidWindow)
}

// Winner returns the bid that wins, or false if the auction has not ended.
func (a *Auction) Winner(now time.Time) (Bid, bool) {
	if len(a.bids) == 0 {
		return Bid{}, false
	}
	ranked := a.Ranked(now)
	if a.winsAtOnce(&ranked[0], now) || len(a.bids) >= len(a.offer.Candidates) || !now.Before(a.Closes()) {
		return ranked[0], true
	}
	return Bid{}, false
}

// Ranked returns the bids so far, the best first. If the best one cannot be accepted, the next one wins.
func (a *Auction) Ranked(now time.Time) []Bid {
	out := slices.Clone(a.bids)
	slices.SortFunc(out, func(x, y Bid) int {
		return cmp.Or(
			compareBools(a.winsAtOnce(&x, now), a.winsAtOnce(&y, now)),
			cmp.Compare(a.Cost(x, now).Total(), a.Cost(y, now).Total()), cmp.Compare(y.Score, x.Score), cmp.Compare(a.place(x.Cluster), a.place(y.Cluster)),
		)
	})
	return out
}

// winsAtOnce reports whether a bid wins without a look at the others: it is that of the best-ranked cluster, which can start the
// job now.
func (a *Auction) winsAtOnce(b *Bid, now time.Time) bool {
	return a.place(b.Cluster) == 0 && !b.StartsAt.After(now)
}

// place returns the place of a cluster in the offer, from 0.
func (a *Auction) place(cluster string) int {
	return slices.IndexFunc(a.offer.Candidates, func(k Candidate) bool { return k.Cluster == cluster })
}

// Cost returns the cost of a bid: that of the candidate, with the start and the price of the bid.
func (a *Auction) Cost(b Bid, now time.Time) Cost {
	i := a.place(b.Cluster)
	if i < 0 {
		return Cost{}
	}
	q := a.offer.Candidates[i].Quote
	q.StartDelay = max(b.StartsAt.Sub(now), 0)
	if b.PriceMicros > 0 {
		q.PriceMicros = b.PriceMicros
	}
	return q.Cost()
}

// Bids returns the bids so far, one for each cluster.
func (a *Auction) Bids() []Bid { return slices.Clone(a.bids) }
