// Package regimes judges queue orders on generated workloads. A regime of package
// sim is a kind of workload with its fleet. Each regime is drawn with several
// seeds, and each draw is replayed under several policies:
//
//   - FIFO + backfill, the baseline of every ratio;
//   - the judged policy, which is the default policy `ares`;
//   - shortest job first with true durations and backfill, without preemption: the
//     bound for policies that do not preempt;
//   - the Tiresias-style order, which preempts every job;
//   - the judged policy again, when every job allows preemption.
//
// Preempted jobs hold their GPUs for 30 s to write a checkpoint.
//
// The benchmark runs the judged half of the regimes, which nobody may tune a policy
// on. These variables select other runs:
//
//	ARES_REGIMES         tune, judge or all, or the name of one regime
//	ARES_REGIMES_SEEDS   number of seeds, default 10
//	ARES_REGIMES_POLICY  the judged policy: a name, or a policy file
package regimes
