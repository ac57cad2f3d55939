package ares_test

import (
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	ares "github.com/ares-scheduler/ares"
)

func TestParseQuantity(t *testing.T) {
	for s, want := range map[string]float64{
		"0": 0, "8": 8, "1.5": 1.5, "-2": -2, "80G": 80e9, "80GB": 80e9, "80Gi": 80 << 30, "80GiB": 80 << 30, "1.5T": 1.5e12, "1.1T": 1100e9, "0.3T": 300e9,
		"2k": 2000, "2K": 2000, "2Ki": 2048, "3M": 3e6, "1P": 1e15, "1E": 1e18, "1Ei": 1 << 60, "0.5Ki": 512, "007": 7,
	} {
		if got, err := ares.ParseQuantity(s); err != nil || got != want {
			t.Errorf("%q = %v, %v; want %v", s, got, err, want)
		}
	}
	for _, s := range []string{
		"", "G", "80B", "B", "x", "1e3", "0x10", "NaN", "Inf", "1_000", "+1", "1.", ".5", "1.5.5", "--1", "1 G", " 1", "80g", "80gb", "80GG", "80Gb",
		strings.Repeat("9", 320),
	} {
		if got, err := ares.ParseQuantity(s); err == nil || !strings.Contains(err.Error(), "write it as 8, 1.5T or 80Gi") {
			t.Errorf("%q = %v, %v", s, got, err)
		}
	}
}

func TestParseNodeRequirements(t *testing.T) {
	one := func(key string, o ares.RequirementOperator, values ...string) ares.NodeRequirements {
		return ares.NodeRequirements{{key, o, values}}
	}
	for s, want := range map[string]ares.NodeRequirements{
		"gpu.memory>=80G,!spot":         {{"gpu.memory", ares.OperatorAtLeast, []string{"80G"}}, {"spot", ares.OperatorDoesNotExist, nil}},
		" gpu.memory >= 80G , ! spot\n": {{"gpu.memory", ares.OperatorAtLeast, []string{"80G"}}, {"spot", ares.OperatorDoesNotExist, nil}},
		"disk<=2T":                      one("disk", ares.OperatorAtMost, "2T"),
		"zone=a":                        one("zone", ares.OperatorIn, "a"),
		"zone==a":                       one("zone", ares.OperatorIn, "a"),
		"zone=":                         one("zone", ares.OperatorIn, ""),
		`zone=""`:                       one("zone", ares.OperatorIn, ""),
		"zone!=a":                       one("zone", ares.OperatorNotIn, "a"),
		"zone in (a,b)":                 one("zone", ares.OperatorIn, "a", "b"),
		"zone in(a , b)":                one("zone", ares.OperatorIn, "a", "b"),
		"zone notin (a)":                one("zone", ares.OperatorNotIn, "a"),
		"zone":                          one("zone", ares.OperatorExists),
		"in":                            one("in", ares.OperatorExists),
		"notin notin (in)":              one("notin", ares.OperatorNotIn, "in"),
		`"my disk"="a, b"`:              one("my disk", ares.OperatorIn, "a, b"),
		"zone=a,zone!=b,rack in (1, 2)": {{"zone", ares.OperatorIn, []string{"a"}}, {"zone", ares.OperatorNotIn, []string{"b"}}, {"rack", ares.OperatorIn, []string{"1", "2"}}},
		"node.example.com/gen=3":        one("node.example.com/gen", ares.OperatorIn, "3"),
		"gpu.count in (4, 8)":           one("gpu.count", ares.OperatorIn, "4", "8"),
	} {
		if got, err := ares.ParseNodeRequirements(s); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q = %#v, %v", s, got, err)
		}
	}
	for s, want := range map[string]string{
		"":                  "a key or value is missing at the end: the terms are key>=8,",
		",":                 `a key or value is missing before ","`,
		"a,":                "a key or value is missing at the end",
		"a,,b":              `a key or value is missing before ",b"`,
		"!":                 "a key or value is missing at the end",
		"=a":                `a key or value is missing before "=a"`,
		"a>8":               `">8" cannot follow a: the terms are key>=8, key<=8`,
		"a<8":               `"<8" cannot follow a`,
		"a b":               `"b" cannot follow a`,
		"a in b":            `"in b" cannot follow a`,
		"a within (b)":      `"within (b)" cannot follow a`,
		"a in (b":           "a list of values has no closing parenthesis",
		"a in ()":           `a key or value is missing before ")"`,
		"a in (b,)":         `a key or value is missing before ")"`,
		"a=b c":             `"c" does not belong to a=b: put a comma between two terms, and double quotes around a value with spaces`,
		"!a=b":              `"=b" does not belong to !a: put a comma`,
		`a="b`:              `the closing double quote is missing in "b`,
		"a>=":               `a>="": "" is not a number: write it as 8, 1.5T or 80Gi`,
		"gpu.memory>=lots":  `gpu.memory>=lots: "lots" is not a number`,
		"gpu.memory=80G":    "gpu.memory=80G: gpu.memory is compared with >= or <=, not with In",
		"gpu.model>=h100":   "gpu.model is a name: use In or NotIn instead of >=",
		"gpu.count>=1.5":    `"1.5" is not a number of GPUs: write a whole number such as 8`,
		"gpu.model=h1|a100": `"h1|a100" names several models: give each a value of its own`,
		`"a=b"`:             `"a=b" is not a usable key`,
	} {
		got, err := ares.ParseNodeRequirements(s)
		if ares.CodeOf(err) != ares.Invalid || !strings.Contains(err.Error(), want) {
			t.Errorf("%q = %v, %v; want %s", s, got, err, want)
		}
	}
}

func TestCheckNodeRequirements(t *testing.T) {
	many := func(n int) (out []string) {
		for range n {
			out = append(out, "v")
		}
		return out
	}
	for _, c := range []struct {
		r    ares.NodeRequirement
		want string // "" when nothing is wrong
	}{
		{ares.NodeRequirement{"zone", "In", many(ares.MaxRequirementValues)}, ""},
		{ares.NodeRequirement{"zone", "In", many(ares.MaxRequirementValues + 1)}, "[0].values: In takes 1 to 64 values, got 65"},
		{ares.NodeRequirement{"zone", "In", nil}, "[0].values: In takes 1 to 64 values, got 0"},
		{ares.NodeRequirement{"zone", "NotIn", nil}, "[0].values: NotIn takes 1 to 64 values, got 0"},
		{ares.NodeRequirement{"zone", "In", []string{""}}, ""},
		{ares.NodeRequirement{"zone", "In", []string{"a", "b\n"}}, "[0].values[1]: holds a control character"},
		{ares.NodeRequirement{"zone", "In", []string{long(ares.MaxNameBytes + 1)}}, "[0].values[0]: at most 253 bytes, got 254"},
		{ares.NodeRequirement{"zone", "Exists", nil}, ""},
		{ares.NodeRequirement{"zone", "Exists", []string{"a"}}, "[0].values: Exists takes no values, got 1: leave values out"},
		{ares.NodeRequirement{"zone", "DoesNotExist", []string{"a"}}, "[0].values: DoesNotExist takes no values, got 1"},
		{ares.NodeRequirement{"zone", "", nil}, `[0].operator: "" is unknown: use one of In, NotIn, Exists, DoesNotExist, >=, <=`},
		{ares.NodeRequirement{"zone", "in", []string{"a"}}, `[0].operator: "in" is unknown: use one of In,`},
		{ares.NodeRequirement{"disk", ">=", []string{"2T"}}, ""},
		{ares.NodeRequirement{"disk", "<=", []string{"-2"}}, ""},
		{ares.NodeRequirement{"disk", ">=", []string{"2T", "4T"}}, "[0].values: >= takes one value, got 2"},
		{ares.NodeRequirement{"disk", "<=", nil}, "[0].values: <= takes one value, got 0"},
		{ares.NodeRequirement{"disk", ">=", []string{"large"}}, `[0].values[0]: "large" is not a number: write it as 8, 1.5T or 80Gi`},
		{ares.NodeRequirement{"", "Exists", nil}, `[0].key: "" is not a usable key: use a label of nodes without '=', at most 253 bytes, or gpu.model, gpu.memory, gpu.count`},
		{ares.NodeRequirement{"a=b", "Exists", nil}, `[0].key: "a=b" is not a usable key`},
		{ares.NodeRequirement{long(ares.MaxNameBytes + 1), "Exists", nil}, "is not a usable key"},
		{ares.NodeRequirement{"gpu.memory", ">=", []string{"80G"}}, ""},
		{ares.NodeRequirement{"gpu.memory", ">=", []string{"0"}}, `"0" is not an amount of memory: write it as 80G, or 81920 in MB`},
		{ares.NodeRequirement{"gpu.memory", "In", []string{"80G"}}, "[0].operator: gpu.memory is compared with >= or <=, not with In"},
		{ares.NodeRequirement{"gpu.memory", "Exists", nil}, ""},
		{ares.NodeRequirement{"gpu.model", "In", []string{"h100", "a100"}}, ""},
		{ares.NodeRequirement{"gpu.model", "In", []string{""}}, "[0].values[0]: a model is empty: write a part of its name"},
		{ares.NodeRequirement{"gpu.model", "<=", []string{"1"}}, "[0].operator: gpu.model is a name"},
		{ares.NodeRequirement{"gpu.count", "In", []string{"4", "8"}}, ""},
		{ares.NodeRequirement{"gpu.count", ">=", []string{"8k"}}, `[0].values[0]: "8k" is not a number of GPUs`},
		{ares.NodeRequirement{"gpu.count", "In", []string{"-1"}}, `"-1" is not a number of GPUs`},
	} {
		spec := ares.Spec{Command: []string{"x"}, Constraints: &ares.Placement{NodeRequirements: ares.NodeRequirements{c.r}}}
		err := spec.Check()
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "placement.node_requirements[0].")) {
			t.Errorf("%+v: %v, want %s", c.r, err, c.want)
		}
	}
	spec := ares.Spec{Command: []string{"x"}}
	for range ares.MaxNodeRequirements {
		spec.EditPlacement().NodeRequirements = append(spec.Placement().NodeRequirements, ares.NodeRequirement{Key: "a", Operator: ares.OperatorExists})
	}
	if err := spec.Check(); err != nil {
		t.Errorf("%d requirements: %v", ares.MaxNodeRequirements, err)
	}
	spec.EditPlacement().NodeRequirements = append(spec.Placement().NodeRequirements, ares.NodeRequirement{})
	if err := spec.Check(); err == nil || err.Error() != "placement.node_requirements: at most 32 requirements, got 33: list several values in one with In or NotIn" {
		t.Errorf("%d requirements: %v", ares.MaxNodeRequirements+1, err)
	}
}

// TestNodeRequirementsMatch checks conditions on a node with labels and 8 GPUs of one model, and on a node without
// GPUs.
func TestNodeRequirementsMatch(t *testing.T) {
	labels := map[string]string{"zone": "a", "disk": "4T", "gen": "3", "empty": "", "name": "4 tons", "gpu.count": "99", "gpu.model": "tpu", "gpu.memory": "900G"}
	h100 := ares.Node{Labels: labels}
	for range 8 {
		h100.Devices = append(h100.Devices, ares.Device{Model: "NVIDIA H100 80GB HBM3", MemoryMB: 81559})
	}
	bare := ares.Node{Labels: labels}
	mixed := ares.Node{Devices: []ares.Device{{Model: "Tesla T4", MemoryMB: 15360}, {Model: "NVIDIA H100 80GB HBM3", MemoryMB: 10240}, {}}}
	for _, c := range []struct {
		text              string
		h100, bare, mixed bool
	}{
		{"zone=a", true, true, false},
		{"zone=b", false, false, false},
		{"zone in (b, a)", true, true, false},
		{"zone!=a", false, false, true},
		{"zone notin (b, c)", true, true, true},
		{"zone", true, true, false},
		{"!zone", false, false, true},
		{"empty", true, true, false},
		{"empty=", true, true, false},
		{"zone=a,gen=4", false, false, false},
		{"disk>=2T", true, true, false},
		{"disk>=4T", true, true, false},
		{"disk<=4T", true, true, false},
		{"disk>=4Ti", false, false, false},
		{"disk>=4000G", true, true, false},
		{"disk>=2000", true, true, false},
		{"gen>=3", true, true, false},
		{"gen<=2", false, false, false},
		{"zone>=0", false, false, false},
		{"zone<=0", false, false, false},
		{"name>=0", false, false, false},
		{"empty<=9", false, false, false},
		{"gone<=9", false, false, false},
		{"gpu.count>=8", true, false, false},
		{"gpu.count<=8", true, true, true},
		{"gpu.count=0", false, true, false},
		{"gpu.count in (3, 8)", true, false, true},
		{"gpu.count!=8", false, true, true},
		{"gpu.count=99", false, false, false},
		{"gpu.count", true, false, true},
		{"!gpu.model", false, true, false},
		{"!gpu.memory", false, true, false},
		{"gpu.memory", true, false, true},
		{"gpu.model=h100", true, false, true},
		{"gpu.model=tpu", false, false, false},
		{"gpu.model in (a100, H100)", true, false, true},
		{"gpu.model!=h100", false, false, true},
		{"gpu.memory>=80G", true, false, false},
		{"gpu.memory<=80Gi", true, false, true},
		{"gpu.memory>=80Gi", false, false, false},
		{"gpu.memory>=81559", true, false, false},
		{"gpu.memory>=81560", false, false, false},
		{"gpu.memory>=16G", true, false, true},
		{"gpu.memory<=1G", false, false, false},
		{"gpu.model=h100,gpu.memory>=15G", true, false, false},
		{"gpu.model=t4,gpu.memory>=15G", false, false, true},
		{"gpu.memory>=80G,gpu.count>=8,disk>=1T", true, false, false},
	} {
		rs, err := ares.ParseNodeRequirements(c.text)
		if err != nil {
			t.Errorf("%s: %v", c.text, err)
			continue
		}
		if got := [3]bool{rs.Matches(&h100), rs.Matches(&bare), rs.Matches(&mixed)}; got != [3]bool{c.h100, c.bare, c.mixed} {
			t.Errorf("%s: %v, want %v %v %v", c.text, got, c.h100, c.bare, c.mixed)
		}
	}
}

// TestNodeRequirementsSplit checks that each requirement is decided either for the node or for its devices.
// MatchesNode must return true for every requirement that is decided for devices. MatchesDevice must return true for
// every requirement that is decided for the node.
func TestNodeRequirementsSplit(t *testing.T) {
	for text, device := range map[string]bool{
		"gpu.model=h100": true, "gpu.memory>=80G": true, "gpu.memory<=80G": true, "gpu.model!=h100": true,
		"gpu.model": false, "!gpu.memory": false, "gpu.count>=8": false, "zone=a": false,
	} {
		rs, err := ares.ParseNodeRequirements(text)
		if err != nil || rs.OnDevices() != device {
			t.Errorf("%s: on devices %v, %v", text, rs.OnDevices(), err)
		}
		if device && !rs.MatchesNode("", nil, 0) || !device && !rs.MatchesDevice("", 0) {
			t.Errorf("%s is decided by the wrong side", text)
		}
	}
	for _, r := range []ares.NodeRequirement{{"zone", "=", []string{"a"}}, {"gpu.model", "=", []string{"a"}}, {"gpu.count", "", nil}, {"disk", ">=", nil}} {
		if (ares.NodeRequirements{r}).Matches(&ares.Node{Labels: map[string]string{"zone": "a"}, Devices: []ares.Device{{Model: "a"}}}) {
			t.Errorf("%+v cannot be decided and must not match", r)
		}
	}
	var none ares.NodeRequirements
	if !none.Matches(&ares.Node{}) || none.OnDevices() {
		t.Error("no requirement keeps a job off a node")
	}
}

// TestNodeRequirementsTextRoundTrip checks that printed requirements are parsed back to the same value, whatever words
// they contain.
func TestNodeRequirementsTextRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.SliceOfN(rapid.Custom(drawRequirement), 1, 6).Draw(t, "requirements")
		text := ares.NodeRequirements(want).String()
		got, err := ares.ParseNodeRequirements(text)
		if err != nil || !reflect.DeepEqual([]ares.NodeRequirement(got), want) {
			t.Fatalf("%s is read as %#v, %v; want %#v", text, got, err, want)
		}
	})
}

func drawRequirement(t *rapid.T) ares.NodeRequirement {
	word := rapid.OneOf(rapid.SampledFrom([]string{"zone", "in", "notin", "a b", `say "x"`, "a,b", "(", "!x", "<8", `\`, "é", "Exists"}), rapid.StringMatching(`[ -~]{1,12}`))
	label := word.Filter(func(s string) bool { return !strings.Contains(s, "=") && !strings.HasPrefix(s, "gpu.") })
	number := rapid.StringMatching(`[0-9]{1,6}(\.[0-9]{1,3})?([kKMGTPE]|[KMGTPE]i)?`)
	list := func(of *rapid.Generator[string]) []string { return rapid.SliceOfN(of, 1, 4).Draw(t, "values") }
	in := rapid.SampledFrom([]ares.RequirementOperator{ares.OperatorIn, ares.OperatorNotIn})
	than := rapid.SampledFrom([]ares.RequirementOperator{ares.OperatorAtLeast, ares.OperatorAtMost})
	exists := rapid.SampledFrom([]ares.RequirementOperator{ares.OperatorExists, ares.OperatorDoesNotExist})
	reserved := rapid.SampledFrom([]string{ares.KeyGPUModel, ares.KeyGPUMemory, ares.KeyGPUCount})
	switch rapid.IntRange(0, 5).Draw(t, "kind") {
	case 0:
		return ares.NodeRequirement{Key: rapid.OneOf(label, reserved).Draw(t, "key"), Operator: exists.Draw(t, "operator")}
	case 1:
		return ares.NodeRequirement{Key: label.Draw(t, "key"), Operator: than.Draw(t, "operator"), Values: []string{number.Draw(t, "value")}}
	case 2:
		return ares.NodeRequirement{Key: ares.KeyGPUMemory, Operator: than.Draw(t, "operator"), Values: []string{"1" + number.Draw(t, "value")}}
	case 3:
		return ares.NodeRequirement{Key: ares.KeyGPUCount, Operator: in.Draw(t, "operator"), Values: list(rapid.StringMatching(`[1-9][0-9]{0,3}`))}
	case 4:
		return ares.NodeRequirement{Key: ares.KeyGPUModel, Operator: in.Draw(t, "operator"), Values: list(word.Filter(func(s string) bool { return !strings.Contains(s, "|") }))}
	default:
		return ares.NodeRequirement{Key: label.Draw(t, "key"), Operator: in.Draw(t, "operator"), Values: list(rapid.OneOf(word, rapid.Just("")))}
	}
}
