// Package page opens what `ares sim run --html` writes in a real browser, and
// holds what that shows against the JSON of the same run. It needs Chromium,
// which make installs.
package page
