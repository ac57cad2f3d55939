package policy_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/policy"
)

var noon = time.Date(2026, 1, 15, 12, 0, 0, 0, time.UTC)

func compiler(t testing.TB) *policy.Compiler {
	t.Helper()
	c, err := policy.NewCompiler()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// This function compiles policies, which must all be valid.
func set(t testing.TB, policies ...ares.Policy) *policy.Set {
	t.Helper()
	c := compiler(t)
	var rules []*policy.Rule
	for _, p := range policies {
		r, err := c.Compile(p.WithDefaults())
		if err != nil {
			t.Fatalf("%s: %v", p.Name, err)
		}
		rules = append(rules, r)
	}
	return policy.NewSet(rules)
}

func input(spec ares.Spec) *policy.Input {
	return &policy.Input{
		Job: policy.NewJob(spec), Tenant: policy.NewTenant(&ares.Tenant{ID: "vision", Limits: ares.NoLimits(), GPUHours: 100}, 10),
		User: policy.User{Name: "oidc:ann", Groups: []string{"ml"}}, Now: noon,
	}
}

// TestMistakes checks that mistakes in a policy are reported with field, line and column when the
// policy is applied.
func TestMistakes(t *testing.T) {
	deep := strings.Repeat("(", 60) + "true" + strings.Repeat(")", 60)
	for name, c := range map[string]struct {
		p    ares.Policy
		want []string
	}{
		"unknown field":      {ares.Policy{Rule: "job.gpuz < 8"}, []string{"rule: line 1, column 4: there is no field gpuz", "ares policy fields"}},
		"second line":        {ares.Policy{Rule: "job.gpus < 8 &&\n  tenant.quotas > 1.0"}, []string{"line 2, column 9: there is no field quotas"}},
		"unknown variable":   {ares.Policy{Rule: "jobs.gpus < 8"}, []string{"there is no jobs here: use job, now, tenant, usage, user"}},
		"of another point":   {ares.Policy{On: ares.OnAccess, Rule: "job.gpus < 8"}, []string{"there is no job here: use now, object, request, user"}},
		"two mistakes":       {ares.Policy{Match: "job.x", Rule: "job.y == 1"}, []string{"match: line 1, column 4: there is no field x", "rule: line 1, column 4: there is no field y"}},
		"type":               {ares.Policy{Rule: "job.gpus"}, []string{"rule: is of type int: it must be bool"}},
		"int and double":     {ares.Policy{Rule: "tenant.gpu_hours + 1 < tenant.quota"}, []string{"line 1, column 18", "double and int", "1.0"}},
		"text and number":    {ares.Policy{Rule: `job.name < 3`}, []string{"line 1, column 10", "string and int"}},
		"no such method":     {ares.Policy{Rule: `job.name.begins("x")`}, []string{"line 1, column 16: there is no begins here"}},
		"syntax":             {ares.Policy{Rule: "job.gpus <"}, []string{"rule: line 1, column 11", "ends too early"}},
		"syntax in between":  {ares.Policy{Rule: "job.gpus < < 3"}, []string{"rule: line 1, column 12", "'<'"}},
		"one equals sign":    {ares.Policy{Rule: "job.gpus = 3"}, []string{"rule: line 1, column 10"}},
		"labels":             {ares.Policy{On: ares.OnPlacement, Require: `{"pool": 3}`}, []string{"require: is of type map(string, int)", `{"pool": "a100"}`}},
		"no labels":          {ares.Policy{On: ares.OnPlacement}, []string{"require: is missing"}},
		"rule on placement":  {ares.Policy{On: ares.OnPlacement, Require: `{"a": "b"}`, Rule: "true"}, []string{"rule: is not for placement"}},
		"message":            {ares.Policy{Rule: "true", MessageExpression: "job.gpus"}, []string{"message_expression: is of type int: it must be string"}},
		"two messages":       {ares.Policy{Rule: "true", MessageExpression: `"a"`, Message: "b"}, []string{"message_expression: give it or message, not both"}},
		"no rule":            {ares.Policy{}, []string{"rule: is missing"}},
		"point":              {ares.Policy{On: "submit", Rule: "true"}, []string{`on: "submit" is unknown: use submission, placement, access`}},
		"action":             {ares.Policy{Rule: "true", Action: "EXPLODE"}, []string{`action: "EXPLODE" is unknown: use REJECT_JOB, WARN`}},
		"action of another":  {ares.Policy{On: ares.OnAccess, Rule: "true", Action: ares.RejectJob}, []string{`action: "REJECT_JOB" is unknown: use DENY_ACCESS`}},
		"mode":               {ares.Policy{Rule: "true", Mode: "on"}, []string{`mode: "on" is unknown: use enforce, warn, dry-run`}},
		"warning of nobody":  {ares.Policy{On: ares.OnAccess, Rule: "true", Mode: ares.WarnOnly}, []string{"mode: an access policy cannot warn"}},
		"channel":            {ares.Policy{Rule: "true", Alert: []string{"a b"}}, []string{`alert: "a b" is not the name of a channel`}},
		"priority":           {ares.Policy{Rule: "true", Priority: 2_000_000}, []string{"priority: must be between -1000000 and 1000000"}},
		"name":               {ares.Policy{Name: "a/b", Rule: "true"}, []string{`name: "a/b" is not a name`}},
		"tenant":             {ares.Policy{Tenant: "*", Rule: "true"}, []string{`tenant_id: "*" is not a tenant's ID`}},
		"too long":           {ares.Policy{Rule: "true || " + strings.Repeat("(", ares.MaxExpressionBytes)}, []string{"rule: is 2056 bytes long, the limit is 2048"}},
		"too deep":           {ares.Policy{Rule: deep}, []string{"rule: ", "nested too deep"}},
		"too many nodes":     {ares.Policy{Rule: "0 in [" + strings.Repeat("1,", 1000) + "0]"}, []string{"rule: ", "too many parts"}},
		"too costly":         {ares.Policy{Rule: "job.command.all(a, job.command.all(b, job.command.all(c, a + b == c)))"}, []string{"rule: would cost up to", "at most 100000 is allowed", "nest fewer loops"}},
		"too costly message": {ares.Policy{Rule: "true", MessageExpression: `job.command.all(a, job.command.all(b, job.command.all(c, a == c))) ? "a" : "b"`}, []string{"message_expression: would cost"}},
		"regular expression": {ares.Policy{Rule: `job.name.matches("(")`}, []string{"rule: line 1", "regular expression"}},
	} {
		t.Run(name, func(t *testing.T) {
			p := c.p
			if p.Name == "" {
				p.Name = "p"
			}
			if p.On == "" {
				p.On = ares.OnSubmission
			}
			_, err := compiler(t).Compile(p.WithDefaults())
			if ares.CodeOf(err) != ares.Invalid {
				t.Fatalf("got %v", err)
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q lacks %q", err, want)
				}
			}
		})
	}
}

// TestModes checks the result of a violated rule for each action and mode.
func TestModes(t *testing.T) {
	for _, c := range []struct {
		mode    ares.PolicyMode
		action  ares.PolicyAction
		refuses bool
		notes   int
		outcome policy.Outcome
		counts  bool
	}{
		{ares.Enforce, ares.RejectJob, true, 0, policy.Rejected, true},
		{ares.Enforce, ares.Warn, false, 1, policy.Warned, true},
		{ares.WarnOnly, ares.RejectJob, false, 1, policy.Warned, true},
		{ares.WarnOnly, ares.Warn, false, 1, policy.Warned, true},
		{ares.DryRun, ares.RejectJob, false, 0, policy.Rejected, false},
		{ares.DryRun, ares.Warn, false, 0, policy.Warned, false},
	} {
		for _, way := range []struct {
			rule    string
			outcome policy.Outcome
		}{
			{"job.gpus < 4", c.outcome},
			{`job.labels["team"] == "a"`, policy.Failed},
			{"1 / (job.gpus - 8) == 0", policy.Failed},
		} {
			v := set(t, ares.Policy{Name: "small", On: ares.OnSubmission, Rule: way.rule, Message: "too large", Mode: c.mode, Action: c.action}).Submission(input(ares.Spec{GPUs: 8}))
			f := v.Findings[0]
			if (v.Err != nil) != c.refuses || len(v.Notes) != c.notes || f.Outcome != way.outcome || f.Counts() != c.counts {
				t.Errorf("%s %s %s: %v, notes %v, %+v", c.mode, c.action, way.rule, v.Err, v.Notes, f)
			}
			if c.refuses && (ares.CodeOf(v.Err) != ares.PolicyDenied || !strings.HasPrefix(v.Err.Error(), "policy small: ")) {
				t.Errorf("%s: %v", way.rule, v.Err)
			}
		}
	}
}

// TestFailuresSayNothingSecret checks that the message for a violated or failed rule does not quote the rule.
func TestFailuresSayNothingSecret(t *testing.T) {
	for rule, want := range map[string]string{
		`job.labels["canary-7f3a"] == "x"`:                                         "reads a label or key that does not exist",
		`job.name == "canary-7f3a"`:                                                "its rule is not met",
		`int("canary-7f3a" + job.name) == job.gpus`:                                "it fails for this request",
		`{"canary-7f3a": 1}[job.name] == 1`:                                        "reads a label or key",
		`9223372036854775807 + job.gpus > 0 && "canary-7f3a" != ""`:                "becomes too large",
		`job.command.exists(a, a.matches("canary-7f3a(x+x+)+y")) || job.gpus == 0`: "its rule is not met",
	} {
		v := set(t, ares.Policy{Name: "p", On: ares.OnSubmission, Rule: rule}).Submission(input(ares.Spec{GPUs: 8}))
		if v.Err == nil || !strings.Contains(v.Err.Error(), want) || strings.Contains(v.Err.Error(), "canary") {
			t.Errorf("%s: %v", rule, v.Err)
		}
	}
}

// TestOrder checks that the order of evaluation does not depend on the order of the input. Every policy that rejects
// must be named.
func TestOrder(t *testing.T) {
	policies := []ares.Policy{
		{Name: "b", On: ares.OnSubmission, Rule: "false", Message: "2"},
		{Name: "own", Tenant: "vision", On: ares.OnSubmission, Rule: "false", Message: "4"},
		{Name: "a", Tenant: "vision", On: ares.OnSubmission, Rule: "false", Message: "3"},
		{Name: "first", On: ares.OnSubmission, Rule: "false", Message: "1", Priority: 1},
		{Name: "last", On: ares.OnSubmission, Rule: "false", Message: "5", Priority: -1},
		{Name: "other", Tenant: "audio", On: ares.OnSubmission, Rule: "false"},
	}
	want := "policy first: 1; policy b: 2; policy a: 3; policy own: 4; policy last: 5"
	for range len(policies) {
		policies = append(policies[1:], policies[0])
		if v := set(t, policies...).Submission(input(ares.Spec{})); v.Err == nil || v.Err.Error() != want {
			t.Errorf("got %v", v.Err)
		}
	}
}

// TestMessages checks that a message is one line of bounded length, whatever the job's name is.
func TestMessages(t *testing.T) {
	p := ares.Policy{Name: "p", On: ares.OnSubmission, Rule: "false", MessageExpression: `"no " + job.name`}
	for name, want := range map[string]string{
		"x":                       "policy p: no x",
		"a\nb\x1b[31mc":           "policy p: no a b [31mc",
		strings.Repeat("é", 1000): "policy p: no " + strings.Repeat("é", 254) + "…",
	} {
		if v := set(t, p).Submission(input(ares.Spec{Name: name})); v.Err.Error() != want {
			t.Errorf("got %q, want %q", v.Err, want)
		}
	}
	p.MessageExpression = `job.labels["none"]`
	if v := set(t, p).Submission(input(ares.Spec{})); v.Err.Error() != "policy p: its rule is not met" {
		t.Errorf("a message that fails gave %v", v.Err)
	}
}

// TestPlacement checks which labels are required, and which conflicts are reported.
func TestPlacement(t *testing.T) {
	pool := ares.Policy{Name: "pool", On: ares.OnPlacement, Match: "job.gpus >= 8", Require: `{"pool": "a100"}`}
	rack := ares.Policy{Name: "rack", On: ares.OnPlacement, Require: `job.gpu_model == "" ? {} : {"gpu": job.gpu_model}`}
	asks := func(labels map[string]string) ares.Spec {
		return ares.Spec{GPUs: 8, GPUModel: "h100", Constraints: &ares.Placement{NodeSelector: labels}}
	}
	with := func(p ares.Policy, change func(*ares.Policy)) ares.Policy { change(&p); return p }
	for name, c := range map[string]struct {
		policies []ares.Policy
		spec     ares.Spec
		labels   string
		notes    string
		err      string
	}{
		"two":           {[]ares.Policy{pool, rack}, asks(nil), "map[gpu:h100 pool:a100]", "policy pool requires node label pool=a100|policy rack requires node label gpu=h100", ""},
		"not about it":  {[]ares.Policy{pool, rack}, ares.Spec{GPUs: 1}, "map[]", "", ""},
		"said already":  {[]ares.Policy{pool}, asks(map[string]string{"pool": "a100"}), "map[]", "", ""},
		"another label": {[]ares.Policy{pool}, asks(map[string]string{"zone": "a"}), "map[pool:a100]", "policy pool requires node label pool=a100", ""},
		"against it":    {[]ares.Policy{pool}, asks(map[string]string{"pool": "t4"}), "map[]", "", "policy pool requires node label pool=a100, the job asks for pool=t4"},
		"both the same": {[]ares.Policy{pool, with(pool, func(p *ares.Policy) { p.Name = "too" })}, asks(nil), "map[pool:a100]", "policy pool requires node label pool=a100", ""},
		"each other": {
			[]ares.Policy{pool, with(pool, func(p *ares.Policy) { p.Name, p.Require = "two", `{"pool": "t4"}` })},
			asks(nil), "map[]", "",
			"policy two requires node label pool=t4 and policy pool pool=a100: no node has both",
		},
		"warn":     {[]ares.Policy{with(pool, func(p *ares.Policy) { p.Mode, p.Message = ares.WarnOnly, "from May on" })}, asks(map[string]string{"pool": "t4"}), "map[]", "policy pool would require node label pool=a100: from May on", ""},
		"WARN":     {[]ares.Policy{with(pool, func(p *ares.Policy) { p.Action = ares.Warn })}, asks(nil), "map[]", "policy pool would require node label pool=a100", ""},
		"dry run":  {[]ares.Policy{with(pool, func(p *ares.Policy) { p.Mode = ares.DryRun })}, asks(nil), "map[]", "", ""},
		"no label": {[]ares.Policy{with(pool, func(p *ares.Policy) { p.Require = `{"a=b": "c"}` })}, asks(nil), "map[]", "", "policy pool: its require cannot be evaluated"},
		"refused before": {
			[]ares.Policy{pool, {Name: "no", On: ares.OnSubmission, Rule: "false"}}, asks(nil), "map[]", "", "policy no: its rule is not met",
		},
	} {
		v := set(t, c.policies...).Submission(input(c.spec))
		var notes []string
		for _, n := range v.Notes {
			notes = append(notes, n.Text)
		}
		if fmt.Sprint(v.Labels) != c.labels || strings.Join(notes, "|") != c.notes || (v.Err != nil) != (c.err != "") || v.Err != nil && !strings.Contains(v.Err.Error(), c.err) {
			t.Errorf("%s: labels %v, notes %q, %v", name, v.Labels, notes, v.Err)
		}
	}
}

// TestAccess checks that access policies deny calls within their scope. A tenant's own policies must not apply to a
// platform-admin.
func TestAccess(t *testing.T) {
	s := set(t,
		ares.Policy{Name: "no-drain", On: ares.OnAccess, Match: `request.action == "DrainNode"`, Rule: `"ops" in user.groups`},
		ares.Policy{Name: "frozen", Tenant: "vision", On: ares.OnAccess, Rule: "!request.write", Message: "vision is frozen"},
	)
	admin, user := policy.User{Roles: []string{"platform-admin"}}, policy.User{Roles: []string{"submitter"}}
	for _, c := range []struct {
		name  string
		in    policy.Access
		err   string
		asked int
	}{
		{"another action", policy.Access{User: user, Request: policy.Request{Action: "GetNode"}}, "", 1},
		{"drain", policy.Access{User: admin, Request: policy.Request{Action: "DrainNode", Write: true}}, "policy no-drain: its rule is not met", 1},
		{"drain by ops", policy.Access{User: policy.User{Groups: []string{"ops"}}, Request: policy.Request{Action: "DrainNode", Write: true}}, "", 1},
		{"a write in vision", policy.Access{User: user, Request: policy.Request{Write: true}, Object: policy.Object{Tenant: "vision"}}, "policy frozen: vision is frozen", 2},
		{"a read in vision", policy.Access{User: user, Object: policy.Object{Tenant: "vision"}}, "", 2},
		{"a write in vision by an admin", policy.Access{User: admin, Request: policy.Request{Write: true}, Object: policy.Object{Tenant: "vision"}}, "", 1},
		{"a write elsewhere", policy.Access{User: user, Request: policy.Request{Write: true}, Object: policy.Object{Tenant: "audio"}}, "", 1},
	} {
		v := s.Access(&c.in)
		if len(v.Findings) != c.asked || (v.Err == nil) != (c.err == "") || v.Err != nil && (v.Err.Error() != c.err || ares.CodeOf(v.Err) != ares.Forbidden) {
			t.Errorf("%s: %v, %d asked", c.name, v.Err, len(v.Findings))
		}
	}
}

// TestBroken checks a policy that this version of Ares cannot read. If the policy is enforced, it must reject
// everything in its scope. If it is not enforced, it must reject nothing.
func TestBroken(t *testing.T) {
	for mode, refuses := range map[ares.PolicyMode]bool{ares.Enforce: true, ares.WarnOnly: false, ares.DryRun: false} {
		p := ares.Policy{Name: "future", Tenant: "vision", On: ares.OnSubmission, Rule: "job.from_the_future", Mode: mode, Action: ares.RejectJob}
		s := policy.NewSet([]*policy.Rule{policy.Broken(p, ares.Errorf(ares.Invalid, "no"))})
		v := s.Submission(input(ares.Spec{}))
		if (v.Err != nil) != refuses || v.Findings[0].Outcome != policy.Failed || refuses && !strings.Contains(v.Err.Error(), "policy future cannot be read by this version") {
			t.Errorf("%s: %v", mode, v.Err)
		}
		other := input(ares.Spec{})
		other.Tenant.ID = "audio"
		if v = s.Submission(other); v.Err != nil {
			t.Errorf("%s: another tenant's job: %v", mode, v.Err)
		}
	}
}

// TestCosts checks that an evaluation is stopped if its input makes it too expensive. The total cost of all policies
// must be limited too.
func TestCosts(t *testing.T) {
	args := slices.Repeat([]string{strings.Repeat("x", 30)}, 1000)
	dear := ares.Policy{Name: "dear", On: ares.OnSubmission, Rule: `job.command.all(a, job.command.all(b, a != "y" && b != "y"))`}
	v := set(t, dear).Submission(input(ares.Spec{Command: args}))
	if v.Err == nil || !strings.Contains(v.Err.Error(), "costs more than 100000") || v.Cost > policy.MaxCost+1000 {
		t.Errorf("cost %d, %v", v.Cost, v.Err)
	}
	if v = set(t, dear).Submission(input(ares.Spec{Command: args[:20]})); v.Err != nil {
		t.Errorf("a small one: %v", v.Err)
	}
	var many []ares.Policy
	for i := range 40 {
		dear.Name = fmt.Sprintf("dear-%02d", i)
		many = append(many, dear)
	}
	v = set(t, many...).Submission(input(ares.Spec{Command: args}))
	if v.Cost > policy.MaxTotalCost+policy.MaxCost+1000 || !strings.Contains(v.Err.Error(), "policy dear-39: its rule cannot be evaluated: all policies together cost more than 1000000") {
		t.Errorf("cost %d, %v", v.Cost, v.Err)
	}
}

// TestHours checks that GPU-hours are counted only for policies that read them.
func TestHours(t *testing.T) {
	for rule, want := range map[string]bool{"tenant.gpu_hours < tenant.quota": true, "job.gpus < 8": false, "[1].exists(x, double(x) > tenant.gpu_hours)": true} {
		if s := set(t, ares.Policy{Name: "p", On: ares.OnSubmission, Rule: rule}); s.AsksHours() != want {
			t.Errorf("%s: %v", rule, s.AsksHours())
		}
	}
}

// TestTenantWithoutBudget checks that policies see an infinite quota of GPU-hours for a tenant
// without a budget.
func TestTenantWithoutBudget(t *testing.T) {
	if got := policy.NewTenant(&ares.Tenant{ID: "a"}, 3); !math.IsInf(got.Quota, 1) {
		t.Errorf("quota %v", got.Quota)
	}
	if got := policy.NewTenant(&ares.Tenant{ID: "a", GPUHours: 5}, 3); got.Quota != 5 || got.GPUHours != 3 {
		t.Errorf("%+v", got)
	}
}

// TestJob checks which fields of a job can be read by policies. Policies must not be able to read the values of the
// job's environment.
func TestJob(t *testing.T) {
	v := set(t, ares.Policy{
		Name: "p", On: ares.OnSubmission, Rule: `
		job.gpus == 6 && job.members == 3 && job.gpu_count == 2 && job.queue == "default" && job.priority == 500 && job.priority_class == "normal" &&
		job.command == ["a", "b"] && job.environment_names == ["A", "B"] && job.max_retries == 3 && !job.has_deadline && job.labels.team == "x" &&
		job.execution_mode == "restart" && job.deadline < now && now.getFullYear() == 2026 && usage.gpus == 0 && user.groups == ["ml"]`,
	}).Submission(input(ares.Spec{
		Members: 3, GPUs: 2, Command: []string{"a"}, Args: []string{"b"}, Environment: map[string]string{"B": "secret", "A": ""}, Labels: map[string]string{"team": "x"},
	}))
	if v.Err != nil {
		t.Error(v.Err)
	}
}

// TestJobShowsItsMounts checks that a policy can forbid a mount.
func TestJobShowsItsMounts(t *testing.T) {
	v := set(t, ares.Policy{Name: "p", On: ares.OnSubmission, Rule: `!job.mounts.exists(m, m.startsWith("/mnt/secret/") || !m.endsWith(":ro"))`})
	for text, allowed := range map[string]bool{"/data:/x:ro": true, "/data:/x": false, "/mnt/secret/a:/x:ro": false} {
		m, err := ares.ParseMount(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := v.Submission(input(ares.Spec{Constraints: &ares.Placement{Mounts: []ares.Mount{m}}})); (got.Err == nil) != allowed {
			t.Errorf("%s: %v", text, got.Err)
		}
	}
}

// TestJobShowsContainerRoot checks that a policy can forbid container_root.
func TestJobShowsContainerRoot(t *testing.T) {
	v := set(t, ares.Policy{Name: "p", On: ares.OnSubmission, Rule: "!job.container_root"})
	for _, root := range []bool{false, true} {
		if got := v.Submission(input(ares.Spec{Image: "x", Constraints: &ares.Placement{ContainerRoot: root}})); (got.Err != nil) != root {
			t.Errorf("container_root %t: %v", root, got.Err)
		}
	}
}

// TestJobShowsItsNodeRequirements checks that a policy can read a job's node requirements as text.
func TestJobShowsItsNodeRequirements(t *testing.T) {
	rs, err := ares.ParseNodeRequirements("gpu.memory>=80G, !spot")
	if err != nil {
		t.Fatal(err)
	}
	got := policy.NewJob(ares.Spec{Constraints: &ares.Placement{NodeRequirements: rs}}).NodeRequirements
	if !slices.Equal(got, []string{"gpu.memory>=80G", "!spot"}) {
		t.Errorf("%q", got)
	}
}
