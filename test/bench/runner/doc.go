// Command runner runs the benchmarks of the repository. It finds them in the sources, so a new benchmark needs no entry
// in a list.
//
// With -tiny, it runs every benchmark once in its tiny form (package rounds), and fails if one does not work, is
// skipped or takes long. `make test` does this, so that benchmarks cannot stop working unnoticed.
//
// Without -tiny, it runs the benchmarks of one set whole, and writes what they print into
// docs/reference/performance.md, with the date and the commit. `make bench` and `make bench-sim` do this.
package main
