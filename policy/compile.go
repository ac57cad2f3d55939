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

// What an expression may be and cost. A unit is about one step of an
// evaluation, some tens of nanoseconds.
const (
	MaxCost      = 100_000   // of one expression: as reckoned when it is applied, and when it is evaluated
	MaxTotalCost = 1_000_000 // of all expressions that one submission or call meets
	maxNodes     = 1000      // of an expression, macros expanded
	maxDepth     = 32        // of parentheses and calls
	maxRegex     = 1000      // steps of a regular expression's program
	maxMemory    = 100_000   // values held at once

	// What the cost of an expression is reckoned with, where the sizes are not
	// known before there is a job.
	reckonedLength  = 64  // of a list or map
	reckonedStrings = 256 // bytes of a string
)

// variables are what expressions at a point see, beside now.
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

// Compiler reads policies. It is safe for concurrent use.
type Compiler struct{ jobs, access *cel.Env }

// NewCompiler makes a compiler.
func NewCompiler() (*Compiler, error) {
	jobs, err := environment(jobVariables)
	if err != nil {
		return nil, fmt.Errorf("declare what policies on submission see: %w", err)
	}
	access, err := environment(accessVariables)
	if err != nil {
		return nil, fmt.Errorf("declare what policies on access see: %w", err)
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

// Rule is a policy that can be asked.
type Rule struct {
	Policy ares.Policy
	// Broken is why it cannot be asked, nil of one that can.
	Broken error
	// Hours says that it reads the GPU-hours of the month, which are dear to count.
	Hours bool

	match, rule, require, message cel.Program
}

// Compile reads a policy. The error names every mistake with its field, line and
// column.
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

// Broken is a rule for a stored policy that this version cannot read.
func Broken(p ares.Policy, why error) *Rule { return &Rule{Policy: p, Broken: why} }

// compile reads one expression, and says whether it asks for GPU-hours.
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
		bad.Add(field, "its cost cannot be reckoned: %s", err)
		return nil, false
	}
	if reckoned.Max > MaxCost {
		bad.Add(field, "would cost up to %s, at most %d is allowed: nest fewer loops (all, exists, map, filter) and searches in text", units(reckoned.Max), MaxCost)
		return nil, false
	}
	program, err = env.Program(tree, cel.EvalOptions(cel.OptOptimize, cel.OptTrackCost), cel.CostLimit(MaxCost), cel.MemoryLimit(maxMemory))
	if err != nil {
		bad.Add(field, "cannot be planned: %s", err)
		return nil, false
	}
	ast.PreOrderVisit(tree.NativeRep().Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		hours = hours || e.Kind() == ast.SelectKind && e.AsSelect().FieldName() == "gpu_hours"
	}))
	return program, hours
}

// emptyMap lets {} stand for a map of any type.
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

// sizes reckons with ordinary sizes. What is larger meets the limit when it is
// evaluated.
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

// EstimateCallCost implements cost.Estimator: CEL's own model is used.
func (sizes) EstimateCallCost(string, string, *cost.AstNode, []cost.AstNode) *cost.CallEstimate {
	return nil
}
