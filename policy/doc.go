// Package policy evaluates the rules that administrators write. The rules decide which jobs may be submitted, on which
// nodes jobs may run, and which callers may call which methods. Rules are CEL expressions over typed objects. A
// misspelt field therefore causes an error when the policy is applied. It does not wait until a job is submitted.
//
// Package policy has no side effects and reads no clock. The same input therefore always gives the same verdict. A cost
// limit applies to the evaluation of every expression.
package policy
