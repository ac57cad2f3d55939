// Package preemption measures the cost of a decision that preempts running jobs
// on a full cluster. The preemptor is a gang. It either reclaims quota that
// another tenant has borrowed, or preempts by priority. In the second case, its
// priority class is two levels above all other jobs. In one case each victim
// has one GPU, and in another case victims have up to 64 GPUs.
package preemption
