/*
 * The federation protocol, in four models that share nothing:
 *
 *   grants.pml  who may start a job (F1–F9, F12), with hub.pml and member.pml
 *   loans.pml   quota that is lent (F10)
 *   fence.pml   on_partition: fence (F11)
 *   copies.pml  one identity, one store (F13)
 */
#if defined(LOANS)
#include "loans.pml"
#elif defined(FENCE)
#include "fence.pml"
#elif defined(COPIES)
#include "copies.pml"
#else
#include "grants.pml"
#endif
