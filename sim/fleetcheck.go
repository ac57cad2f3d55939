package sim

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	ares "github.com/ares-scheduler/ares"
)

// This function reads the only document of a YAML file and rejects unknown
// keys. If the file is empty, the function changes nothing and returns io.EOF.
func decode(text []byte, into any) error {
	in := yaml.NewDecoder(bytes.NewReader(text))
	in.KnownFields(true)
	if err := in.Decode(into); errors.Is(err, io.EOF) {
		return err
	} else if err != nil {
		return errors.New(yamlProblem(err))
	}
	var more yaml.Node
	if err := in.Decode(&more); !errors.Is(err, io.EOF) {
		return errors.New("the file has a second YAML document after ---, but it must contain only one")
	}
	return nil
}

var (
	unknownKey = regexp.MustCompile(`field (\S+) not found in type \S+`)
	otherKind  = regexp.MustCompile("cannot unmarshal !!(\\w+) (`[^\n]*` )?into (\\S+)")
	kindsOf    = []struct{ ofGo, words string }{
		{"[]", "a list"},
		{"map", "keys with values"},
		{"sim.", "keys with values"},
		{"int", "a whole number"},
		{"float", "a number"},
		{"bool", "true or false"},
		{"string", "a text"},
	}
	kindsIn = map[string]string{"seq": "a list", "map": "keys with values"}
)

// yamlProblem returns the text of a YAML error without Go names.
func yamlProblem(err error) string {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	text = strings.ReplaceAll(strings.TrimPrefix(text, "unmarshal errors:\n  "), "\n  ", "; ")
	text = unknownKey.ReplaceAllString(text, "unknown key $1")
	return otherKind.ReplaceAllStringFunc(text, func(all string) string {
		parts := otherKind.FindStringSubmatch(all)
		got := strings.Trim(parts[2], "` ")
		if got == "" {
			got = kindsIn[parts[1]]
		}
		for _, k := range kindsOf {
			if strings.HasPrefix(strings.TrimPrefix(parts[3], "*"), k.ofGo) {
				return fmt.Sprintf("%s is not %s", got, k.words)
			}
		}
		return got + " does not belong here"
	})
}

// This type contains the fields of a fleet file that must not be 0. The fields are
// pointers, so that an explicit 0 differs from a missing value.
type given struct {
	Machines []struct {
		Count *int `yaml:"count"`
	} `yaml:"machines"`
	Tenants []struct {
		Weight *float64 `yaml:"weight"`
		Queues []struct {
			Weight *float64 `yaml:"weight"`
		} `yaml:"queues"`
	} `yaml:"tenants"`
}

// checkZeros reports fields that are explicitly 0. Without this check, an explicit 0 would be
// treated as a missing value.
func checkZeros(p *ares.Problems, text []byte) {
	var g given
	if yaml.Unmarshal(text, &g) != nil {
		return // cannot fail, because the file was decoded before
	}
	for i, m := range g.Machines {
		if m.Count != nil && *m.Count == 0 {
			p.Add(fmt.Sprintf("machines[%d].count", i), "is 0: leave these machines out")
		}
	}
	const light = "is 0: the minimum is %v; leave it out for 1"
	for i, t := range g.Tenants {
		if t.Weight != nil && *t.Weight == 0 {
			p.Add(fmt.Sprintf("tenants[%d].weight", i), light, ares.MinWeight)
		}
		for k, q := range t.Queues {
			if q.Weight != nil && *q.Weight == 0 {
				p.Add(fmt.Sprintf("tenants[%d].queues[%d].weight", i, k), light, ares.MinWeight)
			}
		}
	}
}

// checkDuplicates reports names that are used twice.
func (f *Fleet) checkDuplicates(p *ares.Problems) {
	counts := make(map[string]int, len(f.Machines))
	for i, m := range f.Machines {
		if _, there := counts[m.Name]; there {
			p.Add(fmt.Sprintf("machines[%d].name", i), "%q is given twice", m.Name)
		}
		counts[m.Name] = m.Count
	}
	for i, m := range f.Machines { // the names of several equal machines are numbered
		at := strings.LastIndexByte(m.Name, '-')
		if at < 0 || m.Count > 1 {
			continue
		}
		n, err := strconv.Atoi(m.Name[at+1:])
		if count := counts[m.Name[:at]]; err == nil && count > 1 && n < count && m.Name == numbered(m.Name[:at], n) {
			p.Add(fmt.Sprintf("machines[%d].name", i), "%q is also one of the %d machines named %s", m.Name, count, m.Name[:at])
		}
	}
	for i, t := range f.Shares {
		if slices.ContainsFunc(f.Shares[:i], func(o Tenant) bool { return o.Name == t.Name }) {
			p.Add(fmt.Sprintf("tenants[%d].name", i), "%q is given twice", t.Name)
		}
		for k, q := range t.Queues {
			if slices.ContainsFunc(t.Queues[:k], func(o Queue) bool { return o.Name == q.Name }) {
				p.Add(fmt.Sprintf("tenants[%d].queues[%d].name", i, k), "%q is given twice", q.Name)
			}
		}
	}
}

// This function returns the name of machine number k of several identical machines.
func numbered(name string, k int) string { return fmt.Sprintf("%s-%05d", name, k) }

// knownLink matches the links that nvidia-smi reports between two GPUs.
var knownLink = regexp.MustCompile(`^(NV[1-9][0-9]?|PIX|PXB|PHB|NODE|SYS)?$`)

// checkQuotaModels reports quotas for GPU models that no machine has.
func (f *Fleet) checkQuotaModels() error {
	var models []string
	for i := range f.Machines {
		if f.Machines[i].Count == 0 {
			continue
		}
		for _, d := range f.Machines[i].node(0).Devices {
			if !slices.Contains(models, d.Model) {
				models = append(models, d.Model)
			}
		}
	}
	var p ares.Problems
	check := func(field string, quotas []Quota) {
		for i, q := range quotas {
			if q.Model != "" && !slices.ContainsFunc(models, func(m string) bool { return strings.Contains(strings.ToLower(m), strings.ToLower(q.Model)) }) {
				p.Add(fmt.Sprintf("%s.quotas[%d].model", field, i), "no machine has %q: there are %s", q.Model, strings.Join(slices.Sorted(slices.Values(models)), ", "))
			}
		}
	}
	for i, t := range f.Shares {
		check(fmt.Sprintf("tenants[%d]", i), t.Quotas)
		for k, q := range t.Queues {
			check(fmt.Sprintf("tenants[%d].queues[%d]", i, k), q.Quotas)
		}
	}
	return p.Err()
}
