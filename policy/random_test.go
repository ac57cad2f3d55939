package policy_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/policy"
)

// The function `expression` generates an expression of the given type. Most of the generated expressions are valid. The
// generated expressions have nested loops, growing text and overflowing sums.
func expression(t *rapid.T, kind string, depth int, names []string) string {
	leaf := map[string][]string{
		"bool":   {"true", "job.checkpoints", "job.gpus > 3", `"team" in job.labels`, "tenant.gpu_hours < tenant.quota", "now > job.deadline"},
		"int":    {"0", "7", "9223372036854775807", "job.gpus", "usage.pending", "size(job.command)", "job.name.size()"},
		"string": {`"x"`, "job.name", "tenant.id", `job.labels["team"]`, `"(a+)+$"`, "user.name"},
		"list":   {"job.command", "user.groups", `["a", "b", "c"]`, "job.environment_names"},
	}[kind]
	if kind == "string" {
		leaf = append(leaf, names...)
	}
	if depth == 0 {
		return rapid.SampledFrom(leaf).Draw(t, kind)
	}
	sub := func(k string) string { return expression(t, k, depth-1, names) }
	inner := fmt.Sprintf("v%d", depth)
	within := func(k string) string { return expression(t, k, depth-1, append(append([]string{}, names...), inner)) }
	var grown []string
	switch kind {
	case "bool":
		grown = []string{"and", "or", "not", "compare", "equal", "all", "exists", "one", "contains", "matches", "choose", "in"}
	case "int":
		grown = []string{"add", "multiply", "divide", "size", "length", "index"}
	case "string":
		grown = []string{"join", "text", "pick", "choose"}
	default:
		grown = []string{"filter", "map", "join", "nest"}
	}
	switch rapid.SampledFrom(append(grown, "leaf")).Draw(t, "way") {
	case "and":
		return "(" + sub("bool") + " && " + sub("bool") + ")"
	case "or":
		return "(" + sub("bool") + " || " + sub("bool") + ")"
	case "not":
		return "!(" + sub("bool") + ")"
	case "compare":
		return "(" + sub("int") + " < " + sub("int") + ")"
	case "equal":
		return "(" + sub("string") + " == " + sub("string") + ")"
	case "all":
		return sub("list") + ".all(" + inner + ", " + within("bool") + ")"
	case "exists":
		return sub("list") + ".exists(" + inner + ", " + within("bool") + ")"
	case "one":
		return sub("list") + ".exists_one(" + inner + ", " + within("bool") + ")"
	case "contains":
		return sub("string") + ".contains(" + sub("string") + ")"
	case "matches":
		return sub("string") + ".matches(" + sub("string") + ")"
	case "in":
		return "(" + sub("string") + " in " + sub("list") + ")"
	case "choose":
		return "(" + sub("bool") + " ? " + sub(kind) + " : " + sub(kind) + ")"
	case "add":
		return "(" + sub("int") + " + " + sub("int") + ")"
	case "multiply":
		return "(" + sub("int") + " * " + sub("int") + ")"
	case "divide":
		return "(" + sub("int") + " / " + sub("int") + ")"
	case "size":
		return "size(" + sub("list") + ")"
	case "length":
		return "size(" + sub("string") + ")"
	case "index":
		return "int(" + sub("string") + ")"
	case "join":
		return "(" + sub(kind) + " + " + sub(kind) + ")"
	case "text":
		return "string(" + sub("int") + ")"
	case "pick":
		return sub("list") + "[" + sub("int") + "]"
	case "filter":
		return sub("list") + ".filter(" + inner + ", " + within("bool") + ")"
	case "map":
		return sub("list") + ".map(" + inner + ", " + within("string") + ")"
	case "nest":
		return "[" + sub("string") + ", " + sub("string") + "]"
	}
	return rapid.SampledFrom(leaf).Draw(t, kind)
}

// TestRandomExpressions checks that every expression is either compiled or rejected. A compiled expression must be
// evaluated within its cost limit, and always with the same result.
func TestRandomExpressions(t *testing.T) {
	c := compiler(t)
	read, dear := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		p := ares.Policy{
			Name: "p", On: ares.OnSubmission, Rule: expression(t, "bool", rapid.IntRange(0, 5).Draw(t, "depth"), nil),
			MessageExpression: expression(t, "string", rapid.IntRange(0, 3).Draw(t, "message"), nil),
		}.WithDefaults()
		r, err := c.Compile(p)
		if err != nil {
			if ares.CodeOf(err) != ares.Invalid {
				t.Fatalf("%s: %v", p.Rule, err)
			}
			return
		}
		read++
		words := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab", "train.py", strings.Repeat("z", 500)}), 0, 600).Draw(t, "command")
		in := input(ares.Spec{Name: "job", GPUs: 8, Command: words, Labels: map[string]string{"team": "x"}})
		s := policy.NewSet([]*policy.Rule{r})
		v := s.Submission(in)
		// The last step of an evaluation, such as a search in a text, may exceed the cost limit by
		// the cost of that step.
		if v.Cost > 2*policy.MaxCost+100_000 {
			t.Fatalf("%s cost %d", p.Rule, v.Cost)
		}
		if v.Cost > policy.MaxCost {
			dear++
		}
		if again := s.Submission(in); !reflect.DeepEqual(v, again) {
			t.Fatalf("%s gave %+v, then %+v", p.Rule, v, again)
		}
	})
	if read == 0 {
		t.Error("no expression was read: the draw is of no use")
	}
	t.Logf("%d were read, %d were ended for their cost", read, dear)
}

// FuzzCompile checks that no input makes the compiler panic. It must be possible to evaluate every compiled policy.
func FuzzCompile(f *testing.F) {
	for _, rule := range []string{
		"tenant.gpu_hours < tenant.quota", `job.labels["team"] == 'a'`, "job.command.all(a, a.size() < 8)", `{"pool": job.gpu_model}`, "now - duration('1h') > job.deadline",
		"job.gpus <", `"\u00e9" in user.groups`, "[[[[[1]]]]]", "policy.Job{gpus: 1}.gpus == 1", "r'\\d+'.matches(job.name)", "b'x' == b'y'", "has(job.labels.x)", "type(job) == type(1)",
	} {
		f.Add(rule, rule)
	}
	c := compiler(f)
	in := input(ares.Spec{Name: "job", GPUs: 8, Command: []string{"a", "b"}})
	f.Fuzz(func(t *testing.T, rule, require string) {
		for _, p := range []ares.Policy{
			{Name: "p", On: ares.OnSubmission, Rule: rule, Match: require},
			{Name: "p", On: ares.OnPlacement, Require: require, Match: rule},
			{Name: "p", On: ares.OnAccess, Rule: rule},
		} {
			r, err := c.Compile(p.WithDefaults())
			if err != nil {
				if ares.CodeOf(err) != ares.Invalid {
					t.Errorf("%q: %v", rule, err)
				}
				continue
			}
			s := policy.NewSet([]*policy.Rule{r})
			if v := s.Submission(in); v.Cost > policy.MaxTotalCost {
				t.Errorf("%q cost %d", rule, v.Cost)
			}
			_ = s.Access(&policy.Access{Now: noon})
		}
	})
}

func BenchmarkSubmission(b *testing.B) {
	s := set(b,
		ares.Policy{Name: "budget", On: ares.OnSubmission, Rule: "tenant.gpu_hours < tenant.quota"},
		ares.Policy{Name: "team", On: ares.OnSubmission, Rule: `"team" in job.labels`},
		ares.Policy{Name: "pool", On: ares.OnPlacement, Match: "job.gpus >= 8", Require: `{"pool": "a100"}`},
	)
	in := input(ares.Spec{Name: "job", GPUs: 8, Command: []string{"a", "b"}, Labels: map[string]string{"team": "x"}})
	b.ReportAllocs()
	for b.Loop() {
		s.Submission(in)
	}
}

func BenchmarkAccess(b *testing.B) {
	s := set(b, ares.Policy{Name: "no-drain", On: ares.OnAccess, Match: `request.action == "DrainNode"`, Rule: `"ops" in user.groups`})
	for name, action := range map[string]string{"unmatched": "GetJob", "matched": "DrainNode"} {
		b.Run(name, func(b *testing.B) {
			in := &policy.Access{User: policy.User{Groups: []string{"ops"}}, Request: policy.Request{Action: action}, Now: noon}
			b.ReportAllocs()
			for b.Loop() {
				s.Access(in)
			}
		})
	}
}

func BenchmarkCompile(b *testing.B) {
	c := compiler(b)
	p := ares.Policy{Name: "p", On: ares.OnSubmission, Rule: `tenant.gpu_hours < tenant.quota && job.command.all(a, !a.contains("rm"))`}.WithDefaults()
	for b.Loop() {
		if _, err := c.Compile(p); err != nil {
			b.Fatal(err)
		}
	}
}
