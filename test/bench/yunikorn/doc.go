// Package yunikorn compares Ares's engine with the core of Apache YuniKorn.
// Both run in one process, on the same nodes and jobs. The package is a
// separate module, so that Ares does not depend on YuniKorn's libraries.
package yunikorn
