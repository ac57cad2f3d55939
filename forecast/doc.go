// Package forecast predicts how long a job will run, from runs that ended before. Package forecast has no side
// effects. The package takes ended runs as input and returns runtime quantiles.
//
// Users submit similar jobs again and again, so runs are stored in groups. The narrowest group
// contains runs of the same job. These runs have the same tenant, user, image, command, GPUs and
// model, and the same name apart from numbers. Wider groups contain all runs of a user or of a
// tenant, and the widest group contains all runs. The variable `levels` lists the kinds of groups.
// A group stores only its latest runs.
//
// If runs of the same job are known, they decide. The median of the forecast is their median,
// moved a little toward the submitter's other jobs. The p90 also depends on the spread: how far
// earlier runs of all jobs were from the median that was predicted for them, by the number of own
// runs. So one run gives a forecast that is as wide as one run deserves, and other jobs say how
// certain a median is, but not how long this job takes. The p90 is never below the p90 of the own
// runs, so other jobs never make a job late. Without own runs, the forecast blends the groups of the
// submitter, from narrow to wide. A group with n runs gets the fraction n/(n+3) of the weight that
// the narrower groups have not used. If the submitter has fewer than three runs, there is no
// estimate, and the result is only an assumption for planning.
//
// Some runs are cut short: they are cancelled, preempted, stopped at their time limit, or lost with their node.
// Such a run is a censored sample, because it would have taken longer. A censored run's weight moves to the
// longer runs of the blend, as in the Kaplan-Meier estimator. A forecast never exceeds the job's time limit,
// because no run can exceed that limit.
//
// The p90 is calibrated during use: each ended run is compared with its prediction. When a run
// takes longer than its p90, later predictions become a little longer. When it does not, they
// become shorter by a ninth of that amount. In the long run, 90 % of the runs end within their
// p90. This is true for each class of evidence. This holds for any distribution of runtimes. The benchmark in test/bench/sim/predict measures how soon this
// fraction is reached.
//
// A rank test compares the newest runs of a group with the older ones. If they differ in length, the group has
// drifted. A group that has drifted forgets its older runs and reports the drift.
//
// Memory is bounded to Config.Groups groups of Config.Window runs each. When there are too many
// groups, the groups that have had no new run for the longest time are dropped first. A
// forecaster can be saved as bytes and restored, and the same runs in the same order give the
// same answers.
//
// The type Scores computes node scores from the ends of attempts.
package forecast
