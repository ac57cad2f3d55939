// Package fair replays a production trace in one shared pool. It prints how
// fairly the tenants share the pool. Each virtual cluster of the trace
// becomes a tenant. Each replay also checks that every decision follows the
// engine's fair-share rule.
package fair
