// Package pause waits for a given time, or until a context ends.
//
// Ares uses no backoff library such as cenkalti/backoff, because it would not make the retry loops shorter.
// Each loop doubles its delay in one line of code and then calls the function For. In most loops the delay also
// depends on other values, such as a delay that a server requested or the expiry of a certificate.
package pause
