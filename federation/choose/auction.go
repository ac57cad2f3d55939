package choose

import (
	"cmp"
	"slices"
	"time"
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

// Add adds a bid. A later bid of the same cluster replaces its earlier one. The bid of a cluster without an offer is
// ignored.
func (a *Auction) Add(b Bid, now time.Time) {
	if !slices.ContainsFunc(a.offer.Candidates, func(k Candidate) bool { return k.Cluster == b.Cluster }) {
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
	for _, b := range a.bids {
		if b.Cluster == a.offer.Candidates[0].Cluster && !b.StartsAt.After(now) {
			return b, true
		}
	}
	if len(a.bids) < len(a.offer.Candidates) && now.Before(a.Closes()) {
		return Bid{}, false
	}
	return slices.MinFunc(a.bids, func(x, y Bid) int {
		return cmp.Or(cmp.Compare(a.Cost(x, now).Total(), a.Cost(y, now).Total()), cmp.Compare(y.Score, x.Score), compareNames(x.Cluster, y.Cluster))
	}), true
}

// Cost returns the cost of a bid: that of the candidate, with the start and the price of the bid.
func (a *Auction) Cost(b Bid, now time.Time) Cost {
	for i := range a.offer.Candidates {
		if k := &a.offer.Candidates[i]; k.Cluster == b.Cluster {
			q := k.Quote
			q.StartDelay = max(b.StartsAt.Sub(now), 0)
			if b.PriceMicros > 0 {
				q.PriceMicros = b.PriceMicros
			}
			return q.Cost()
		}
	}
	return Cost{}
}

// Bids returns the bids so far, one for each cluster.
func (a *Auction) Bids() []Bid { return slices.Clone(a.bids) }
