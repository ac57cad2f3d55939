// Package forecast says how long a job will run, from the runs that ended
// before. It is pure: runs go in, quantiles come out.
//
// Submitters repeat themselves, so the runs are kept in groups, from the same
// job again (tenant, user, name without its numbers, image, command, GPUs and
// model) over the user's and the tenant's runs to all there are; levels lists
// them. A group remembers its last runs only. A forecast blends the groups that
// a job belongs to, from narrow to wide: n runs have n/(n+3) of what the narrower
// groups left, so that a few runs shift the answer and many give it.
// What is left at the end goes to a guess from the job's own time limit.
//
// A run that was cut short (cancelled, preempted, at its limit, with its node)
// says only that it would have taken longer. Its weight moves to the longer
// runs of the blend, as in the estimator of Kaplan and Meier; the limit bounds
// the answer, for no run of the job outlives it.
//
// The p90 is calibrated while it is used: each run that ended is held against
// what was told of it, and the answers are stretched a little when it took
// longer, and shrunk a ninth of that when it did not. In the long run nine of
// ten are covered whatever the runs are like, for each tenant and for each kind
// of evidence. How fast that is, is what the benchmark in test/simperf/predict
// measures.
//
// When the newest runs of a group are of another length than those before, by a
// rank test, the group drifted: it forgets the older ones, and tells.
//
// Memory is bounded: Config.Groups groups of Config.Window runs, those longest
// without a run forgotten first. A forecaster can be saved as bytes and
// restored, and the same runs in the same order give the same answers.
//
// Beside that it reckons how nodes do, from the ends of attempts there: Scores.
package forecast
