// Package previous is the forecaster of Ares before jobs were judged by their own
// runs. The benchmark in test/bench/sim/predict compares it with package forecast,
// and nothing else uses it. It gives the same forecasts as package forecast at
// commit 3d4515d8, but has no texts and no bound on its memory, and cannot be saved.
package previous
