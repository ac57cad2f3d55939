package sim

// The constants in this file were measured on two published traces. The test TestRegimesMatchTraces
// measures them again where ARES_TRACES is set.
//
// Philly: the 68,510 jobs with GPUs that were submitted in October and November 2017.
//
//   - Runs shorter than 300 s count as short failures, and the longest 5 % as the tail. The body is
//     everything between. The short part and the body are normal distributions of the logarithm, cut off
//     at their bounds, with the measured mean and deviation. The body of jobs with several GPUs is so wide
//     that it is almost uniform in the logarithm, so its fitted normal distribution lies far to the right.
//     Drawn percentiles are within a factor of 2.7 of the trace, and mostly within 1.5.
//     The tail is a Pareto distribution with the exponent of Hill's estimator.
//   - Bursts are jobs of one virtual cluster with the same number of GPUs, each at most 30 s after
//     the previous one.
//   - The rate of arrivals by hour and by weekday is relative to the mean. The rate of single days
//     varies further, and the logarithm of that factor has the given deviation.
//
// openb: the 7,064 pods of the default list that request GPUs.

// runModel is the distribution of runtimes in seconds.
type runModel struct {
	short                 float64 // share of short failures
	shortMu, shortSigma   float64 // of ln(seconds)
	shortMost             float64 // the longest short failure, and the start of the body
	mu, sigma             float64 // of the body, in ln(seconds)
	tail, tailFrom, alpha float64 // share, start and exponent of the tail
}

// phillyRuns has the fitted distributions for 1, 2 to 4, 5 to 8, and more GPUs. They were fitted to
// 64,078, 2,943, 1,303 and 186 jobs.
var phillyRuns = [4]runModel{
	{short: 0.279, shortMu: 4.38, shortSigma: 0.58, shortMost: 300, mu: 7.55, sigma: 1.05, tail: 0.05, tailFrom: 17_597, alpha: 0.84},
	{short: 0.481, shortMu: 3.33, shortSigma: 0.97, shortMost: 300, mu: 18.25, sigma: 5.95, tail: 0.05, tailFrom: 233_725, alpha: 1.50},
	{short: 0.140, shortMu: 4.78, shortSigma: 0.67, shortMost: 300, mu: 15.20, sigma: 5.95, tail: 0.05, tailFrom: 437_864, alpha: 2.09},
	{short: 0.183, shortMu: 4.64, shortSigma: 0.84, shortMost: 300, mu: 16.90, sigma: 5.95, tail: 0.05, tailFrom: 341_346, alpha: 1.53},
}

// phillySizes and openbSizes have the share of jobs by GPU count. The share that is missing from
// 1 belongs to rare sizes.
var (
	phillySizes = []sizeShare{{1000, 0.9353}, {2000, 0.0206}, {4000, 0.0224}, {8000, 0.0190}, {16_000, 0.0020}, {32_000, 0.0005}}
	openbSizes  = []sizeShare{
		{100, 0.004}, {200, 0.039}, {300, 0.048}, {400, 0.008}, {500, 0.127}, {600, 0.021}, {700, 0.036}, {800, 0.153}, // rounded to hundreds
		{1000, 0.554}, {2000, 0.002}, {4000, 0.002}, {8000, 0.006},
	}
)

// These variables describe the rate of arrivals in Philly. The hours are those of the trace.
var (
	phillyHours = [24]float64{
		1.36, 1.01, 1.20, 1.11, 0.53, 1.15, 1.83, 2.18, 1.12, 0.95, 0.88, 0.75, 0.64, 0.64, 0.49, 0.59, 0.94, 0.69, 0.83, 0.69, 1.13, 0.95, 1.25, 1.09,
	}
	phillyWeekdays = [7]float64{0.84, 1.01, 1.14, 1.32, 1.44, 0.69, 0.56} // Monday first
)

const (
	phillyDaySigma   = 0.75 // of the logarithm of the factor of a day
	phillySingles    = 0.82 // share of the bursts that have only one job
	phillyBurstAlpha = 1.16 // exponent of the sizes of other bursts, from two jobs on
	phillyBurstGap   = 6.6  // mean seconds between two jobs of a burst
)

// openbCPUs has the cores per GPU of openb's pods: the 25th, 50th and 75th percentile, rounded.
var openbCPUs = [3]int{4, 10, 12}
