// Package policy holds the rules that people write themselves: what may be
// submitted, which nodes it may have and who may call what. They are expressions
// in CEL over typed objects, so that a misspelt field is a mistake when the
// policy is applied and not when somebody's job is refused by it.
//
// It is pure: time is an argument, the same input has the same verdict, and an
// evaluation ends within its cost, whatever the expression.
package policy
