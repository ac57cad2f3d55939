// Package page opens the HTML report of `ares sim run --html` in a real browser.
// It compares the displayed values with the JSON of the same run. The tests need
// Chromium, which `make` installs.
package page
