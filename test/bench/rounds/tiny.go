package rounds

import "os"

// tinyVariable is the environment variable that asks for tiny benchmarks.
const tinyVariable = "ARES_BENCH_TINY"

// Tiny reports whether the benchmarks run in their tiny form. `make test` runs every benchmark in this form, to find
// benchmarks that no longer work. The figures of a tiny run mean nothing, so a benchmark that checks its own figures
// leaves out this check.
func Tiny() bool { return os.Getenv(tinyVariable) != "" }

// Details reports whether benchmarks that have long details, such as the result of each seed, print them too. They do if
// ARES_BENCH_DETAILS is set.
func Details() bool { return os.Getenv("ARES_BENCH_DETAILS") != "" }

// Sized returns the size of a benchmark: the first value, or the second value in the tiny form.
func Sized[T any](whole, tiny T) T {
	if Tiny() {
		return tiny
	}
	return whole
}
