// Package federation measures a hub and its members, as real processes: decisions, claims, traffic and memory of a hub with
// 100 members, the way of a job from the hub to a member that is far away, and what a lost hub changes in a member.
package federation
