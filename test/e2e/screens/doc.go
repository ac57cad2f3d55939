// Package screens checks what users see on a terminal: lists of jobs, nodes, queues and tenants at several widths, and watched lists.
// The program is the built one, on a real pseudoterminal; its server is a fake that always gives the same answers. The expected
// screens are in testdata; `go test ./test/e2e/screens -rewrite` writes them anew.
package screens
