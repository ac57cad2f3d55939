// Package philly prints how long jobs of a production trace take to complete
// under the orders that a queue may have, each as a policy of the same engine,
// beside what an independent simulator found.
//
// The setting is the published one, with the rules that it leaves open and that
// were found by trying:
//
//   - Microsoft's Philly trace, submitted in October and November 2017, by the
//     eleven virtual clusters that the artifact of "Characterization and
//     Prediction of Deep Learning Workloads in Large-Scale GPU Datacenters"
//     (SC'21) keeps: 68,503 jobs. The other four have eighteen.
//   - One pool for each virtual cluster, of as many machines of eight GPUs as
//     that artifact gives it, times 0.3125, rounded up: 111 machines in all.
//     Rounding down, the smallest pools have two machines instead of three, and
//     FIFO takes 85,870 s instead of 63,854 s.
//   - A job is on one machine if it fits there, and else takes equal members, as
//     few as will do: 16 GPUs are two whole machines, 12 are six and six.
//   - A job takes the machine with the fewest free GPUs that are enough
//     (placement bestfit).
//   - FIFO, SJF and QSSF are strict: a job that does not fit holds up its queue.
//     "+ backfill" passes it over. EASY knows true durations.
//   - SRTF and the Tiresias-style order stop running jobs at no cost, and only
//     for a job that then fits. The two levels of the latter part at 3,200
//     GPU-seconds, and a job that does not fit holds nobody up. The published
//     rule of this line is not known: with strict queues it takes 29,405 s, so
//     the published 26,161 s lie between the two.
//   - QSSF ranks by true GPU-time with an error: times e to a normal draw of
//     deviation 2. That is what the published error was fitted to be by the line
//     of QSSF; nothing else was fitted to a line.
package philly
