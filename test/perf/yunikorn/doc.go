// Package yunikorn holds the engine against the core of Apache YuniKorn on the
// same nodes and jobs, in one process. It is a module of its own, so that Ares
// has nothing of what it needs.
package yunikorn
