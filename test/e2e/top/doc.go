// Package top tests "ares top" on a pseudoterminal, with the real program. The screens in testdata are what a terminal
// shows; `go test ./test/e2e/top -rewrite` writes them again.
package top
