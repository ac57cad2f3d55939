// Package forecast predicts how long a job will run, from runs that ended
// before. It is pure: runs go in, quantiles come out.
//
// Users submit similar jobs again and again, so runs are kept in groups, from
// the same job again (tenant, user, name without its numbers, image, command,
// GPUs and model) over the runs of the user and of the tenant to all runs;
// levels lists them. A group keeps only its last runs. A forecast blends the
// groups of a job, from narrow to wide: a group with n runs gets n/(n+3) of the
// weight that the narrower groups left, so that a few runs shift the answer and
// many determine it. The remaining weight goes to a guess from the job's own
// time limit.
//
// A run that was cut short (cancelled, preempted, at its time limit, or lost
// with its node) is a censored sample: it would have taken longer. Its weight
// moves to the longer runs of the blend, as in the Kaplan-Meier estimator. The
// time limit bounds the answer, because no run can exceed it.
//
// The p90 is calibrated during use: each ended run is compared with its
// prediction. Predictions are stretched a little when the run took longer, and
// shrunk by a ninth of that when it did not. In the long run the p90 covers 90
// % of the runs whatever their distribution, for each tenant and for each level
// of evidence. The benchmark in test/simperf/predict measures how fast it gets
// there.
//
// When a rank test shows that the newest runs of a group differ in length from
// the older ones, the group has drifted: it forgets the older runs, and reports
// the drift.
//
// Memory is bounded: Config.Groups groups of Config.Window runs; the groups
// longest without a run are forgotten first. A forecaster can be saved as bytes
// and restored, and the same runs in the same order give the same answers.
//
// The package also scores nodes from the ends of attempts: Scores.
package forecast
