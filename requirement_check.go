package ares

import (
	"fmt"
	"strconv"
	"strings"
)

// This method reports every mistake in a job's requirements.
func (rs NodeRequirements) check(p *Problems, field string) {
	if len(rs) > MaxNodeRequirements {
		p.Add(field, "at most %d requirements, got %d: list several values in one with In or NotIn", MaxNodeRequirements, len(rs))
		return
	}
	for i := range rs {
		rs[i].check(p, fmt.Sprintf("%s[%d]", field, i))
	}
}

func (r NodeRequirement) check(p *Problems, field string) {
	if !usableKey(r.Key) {
		p.Add(field+".key", "%q is not a usable key: use a label of nodes without '=', at most %d bytes, or %s, %s, %s, %s",
			Clip(r.Key), MaxNameBytes, KeyGPUModel, KeyGPUMemory, KeyGPUCount, KeyNodeName)
	}
	values := field + ".values"
	switch r.Operator {
	case OperatorIn, OperatorNotIn:
		if len(r.Values) == 0 || len(r.Values) > MaxRequirementValues {
			p.Add(values, "%s takes 1 to %d values, got %d", r.Operator, MaxRequirementValues, len(r.Values))
			return
		}
	case OperatorExists, OperatorDoesNotExist:
		if len(r.Values) > 0 {
			p.Add(values, "%s takes no values, got %d: leave values out, or use In or NotIn", r.Operator, len(r.Values))
		}
		return
	case OperatorAtLeast, OperatorAtMost:
		if len(r.Values) != 1 {
			p.Add(values, "%s takes one value, got %d", r.Operator, len(r.Values))
			return
		}
	default:
		p.Add(field+".operator", "%q is unknown: use one of %s", Clip(string(r.Operator)), operatorNames())
		return
	}
	for i, v := range r.Values {
		text(p, fmt.Sprintf("%s[%d]", values, i), v, MaxNameBytes)
	}
	r.checkOperand(p, field)
}

// checkOperand reports an operator that the key does not support, and values that the operator cannot
// compare.
func (r NodeRequirement) checkOperand(p *Problems, field string) {
	numeric := r.Operator == OperatorAtLeast || r.Operator == OperatorAtMost
	switch {
	case (r.Key == KeyGPUModel || r.Key == KeyNodeName) && numeric:
		p.Add(field+".operator", "%s is a name: use In or NotIn instead of %s", r.Key, r.Operator)
		return
	case r.Key == KeyGPUMemory && !numeric:
		p.Add(field+".operator", "%s is compared with >= or <=, not with %s: a card sold with 80 GB has between 80G and 80Gi", r.Key, r.Operator)
		return
	}
	for i, v := range r.Values {
		if wrong := r.wrongValue(v, numeric); wrong != "" {
			p.Add(fmt.Sprintf("%s.values[%d]", field, i), "%s", wrong)
		}
	}
}

// wrongValue describes the mistake in a value, and returns "" for a valid value.
func (r NodeRequirement) wrongValue(v string, numeric bool) string {
	switch {
	case r.Key == KeyGPUCount:
		if n, err := strconv.Atoi(v); err != nil || n < 0 || strconv.Itoa(n) != v {
			return fmt.Sprintf("%q is not a number of GPUs: write a whole number such as 8", Clip(v))
		}
	case r.Key == KeyGPUModel && v == "":
		return "a model is empty: write a part of its name, such as h100, or use Exists for any model"
	case r.Key == KeyGPUModel && strings.Contains(v, "|"):
		return fmt.Sprintf("%q names several models: give each a value of its own", Clip(v))
	case numeric:
		n, err := ParseQuantity(v)
		if err != nil {
			return err.Error()
		}
		if r.Key == KeyGPUMemory && n <= 0 {
			return fmt.Sprintf("%q is not an amount of memory: write it as 80G, or 81920 in MB", Clip(v))
		}
	}
	return ""
}

func operatorNames() string {
	var names []string
	for _, o := range RequirementOperators() {
		names = append(names, string(o))
	}
	return strings.Join(names, ", ")
}
