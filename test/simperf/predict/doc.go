// Package predict measures how well runtimes are predicted, on the last
// fifth of the time of Microsoft's Philly trace (ARES_TRACES) and of generated
// histories with names, users and limits, beside the mean of the submitter's
// last two runs and beside the user's own limit:
//
//	go test -run '^$' -bench . -benchtime 1x ./test/simperf/predict
//
// Everything is online: a run is predicted when it is submitted, and learned
// from when it ends. The constants of the predictor were tuned on the fourth
// fifth of Philly's time and on seeds 1 to 3; what is reported are the last
// fifth and seeds 11 to 15. That a group needs no more than its last few dozen
// runs was first seen on the last fifth too; the figures hardly depend on how
// many (docs/forecast.md).
package predict
