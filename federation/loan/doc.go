// Package loan divides the GPU limit of a tenant, and its budget of GPU-hours, between the clusters of a hub (F10).
//
// A cluster keeps a tenant within its loan, also while it cannot reach the hub. So the loans of all clusters together must not
// exceed the limit, and a loan that nobody uses keeps the jobs of other clusters waiting. Divide moves it to where jobs wait,
// and moves nothing otherwise. DivideHours does the same with GPU-hours, of which only those move that were not used. Both decide only what the loans should be; how they are changed safely is the protocol's matter.
package loan
