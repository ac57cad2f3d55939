package policy

import (
	"fmt"
	"reflect"
	"slices"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/cost"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/ext"

	ares "github.com/ares-scheduler/ares"
)

// These are the limits on expressions. A unit of cost is about one step of an evaluation, some tens of nanoseconds.
const (
	MaxCost      = 100_000   // cost of one expression, estimated when it is applied and measured when it is evaluated
	MaxTotalCost = 1_000_000 // cost of all expressions for one submission or call
	maxNodes     = 1000      // nodes of an expression, with macros expanded
	maxDepth     = 32        // nesting of parentheses and calls
	maxRegex     = 1000      // steps of a regular expression's program
	maxMemory    = 100_000   // values held at the same time

	// The cost estimate assumes these sizes of lists and texts. The real sizes are not known before a job is
	// submitted.
	reckonedLength  = 64  // of a list or map
	reckonedStrings = 256 // bytes of a string
)

// The type `variable` describes a variable that expressions at a policy point can read. All expressions can also
// read the variable "now".
type variable struct {
	name string
	of   reflect.Type
}

var (
	jobVariables = []variable{
		{"job", reflect.TypeFor[Job]()}, {"tenant", reflect.TypeFor[Tenant]()}, {"usage", reflect.TypeFor[Usage]()}, {"user", reflect.TypeFor[User]()},
	}
	accessVariables = []variable{
		{"user", reflect.TypeFor[User]()}, {"request", reflect.TypeFor[Request]()}, {"object", reflect.TypeFor[Object]()},
	}
)

// Compiler compiles policies. A Compiler is safe for concurrent use.
type Compiler struct{ jobs, access *cel.Env }

// NewCompiler returns a compiler.
func NewCompiler() (*Compiler, error) {
	jobs, err := environment(jobVariables)
	if err != nil {
		return nil, fmt.Errorf("declare the variables of submission policies: %w", err)
	}
	access, err := environment(accessVariables)
	if err != nil {
		return nil, fmt.Errorf("declare the variables of access policies: %w", err)
	}
	return &Compiler{jobs: jobs, access: access}, nil
}

func environment(seen []variable) (*cel.Env, error) {
	natives := []any{ext.ParseStructTag("json")}
	opts := []cel.EnvOption{
		cel.Variable("now", cel.TimestampType),
		cel.CrossTypeNumericComparisons(true),
		cel.DefaultUTCTimeZone(true),
		cel.ParserExpressionSizeLimit(ares.MaxExpressionBytes),
		cel.ParserRecursionLimit(maxDepth),
		cel.ExpressionNodeLimit(maxNodes),
		cel.RegexProgramSizeLimit(maxRegex),
		cel.ASTValidators(cel.ValidateRegexLiterals(), cel.ValidateDurationLiterals(), cel.ValidateTimestampLiterals()),
	}
	for _, v := range seen {
		natives = append(natives, v.of)
		opts = append(opts, cel.Variable(v.name, cel.ObjectType(v.of.String())))
	}
	return cel.NewEnv(append(opts, ext.NativeTypes(natives...))...)
}

// Rule is a compiled policy.
type Rule struct {
	Policy ares.Policy
	// Broken says why the rule cannot be evaluated; it is nil for a valid rule.
	Broken error
	// Hours is true if the rule reads the GPU-hours used this month, which are expensive to count.
	Hours bool

	match, rule, require, message cel.Program
}

// Compile compiles a policy. The error lists every mistake with its field, line and column.
func (c *Compiler) Compile(p ares.Policy) (*Rule, error) {
	if err := p.Check(); err != nil {
		return nil, err
	}
	env := c.jobs
	if p.On == ares.OnAccess {
		env = c.access
	}
	r := &Rule{Policy: p}
	var bad ares.Problems
	for _, e := range []struct {
		field, source string
		want          *types.Type
		to            *cel.Program
	}{
		{"match", p.Match, types.BoolType, &r.match},
		{"rule", p.Rule, types.BoolType, &r.rule},
		{"require", p.Require, types.NewMapType(types.StringType, types.StringType), &r.require},
		{"message_expression", p.MessageExpression, types.StringType, &r.message},
	} {
		if e.source == "" {
			continue
		}
		program, hours := compile(env, e.field, e.source, e.want, &bad)
		*e.to, r.Hours = program, r.Hours || hours
	}
	if err := bad.Err(); err != nil {
		return nil, err
	}
	return r, nil
}

// Broken returns a rule for a stored policy that this version cannot read.
func Broken(p ares.Policy, why error) *Rule { return &Rule{Policy: p, Broken: why} }

// `compile` compiles one expression, and reports whether it reads GPU-hours.
func compile(env *cel.Env, field, source string, want *types.Type, bad *ares.Problems) (program cel.Program, hours bool) {
	tree, issues := env.Compile(source)
	if issues.Err() != nil {
		for _, one := range issues.Errors() {
			bad.Add(field, "%s", mistake(env, one))
		}
		return nil, false
	}
	if got := tree.OutputType(); !got.IsExactType(want) && !emptyMap(got, want) {
		bad.Add(field, "is of type %s: it must be %s", got, inWords(want))
		return nil, false
	}
	reckoned, err := env.EstimateCost(tree, sizes{})
	if err != nil {
		bad.Add(field, "its cost cannot be estimated: %s", err)
		return nil, false
	}
	if reckoned.Max > MaxCost {
		bad.Add(field, "would cost up to %s, at most %d is allowed: nest fewer loops (all, exists, map, filter) and searches in text", units(reckoned.Max), MaxCost)
		return nil, false
	}
	program, err = env.Program(tree, cel.EvalOptions(cel.OptOptimize, cel.OptTrackCost), cel.CostLimit(MaxCost), cel.MemoryLimit(maxMemory))
	if err != nil {
		bad.Add(field, "cannot be compiled: %s", err)
		return nil, false
	}
	ast.PreOrderVisit(tree.NativeRep().Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		hours = hours || e.Kind() == ast.SelectKind && e.AsSelect().FieldName() == "gpu_hours"
	}))
	return program, hours
}

// emptyMap reports whether `got` is the type of the literal {} and `want` is a map type. The literal {} fits every
// map type.
func emptyMap(got, want *types.Type) bool {
	return want.Kind() == types.MapKind && got.Kind() == types.MapKind &&
		!slices.ContainsFunc(got.Parameters(), func(t *types.Type) bool { return t.Kind() != types.DynKind && t.Kind() != types.TypeParamKind })
}

func inWords(t *types.Type) string {
	switch t.Kind() {
	case types.BoolKind:
		return "bool: true or false, such as a comparison"
	case types.MapKind:
		return `map(string, string): labels with their values, such as {"pool": "a100"}`
	default:
		return "string: text"
	}
}

func units(n uint64) string {
	if n > 1_000_000_000 {
		return "more than 1000000000"
	}
	return fmt.Sprint(n)
}

// This type estimates the cost of an expression from typical sizes of lists and texts. If the real
// values are larger, the expression reaches the cost limit during evaluation.
type sizes struct{}

// EstimateSize implements cost.Estimator.
func (sizes) EstimateSize(node cost.AstNode) *cost.SizeEstimate {
	if node.ComputedSize() != nil {
		return nil
	}
	out := cost.RangedSizeEstimate(0, reckonedStrings)
	if kind := node.Type().Kind(); kind == types.ListKind || kind == types.MapKind {
		out = cost.RangedSizeEstimate(0, reckonedLength)
	}
	return &out
}

// EstimateCallCost implements cost.Estimator. Returning nil makes CEL use its own cost model.
func (sizes) EstimateCallCost(string, string, *cost.AstNode, []cost.AstNode) *cost.CallEstimate {
	return nil
}
