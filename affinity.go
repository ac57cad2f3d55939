package ares

import (
	"fmt"
	"slices"
	"strings"
)

// Condition is one requirement on a node's labels.
type Condition struct {
	Key    string
	Op     string   // one of in, notin, exists and absent
	Values []string // set for in and notin
}

// ParseCondition reads "key in (a, b)", "key notin (a)", "key=value",
// "key!=value", "key" or "!key".
func ParseCondition(s string) (Condition, error) {
	bad := fmt.Errorf("%q is not a valid node-selection condition: write \"key in (a, b)\", \"key notin (a)\", \"key=value\", \"key\" or \"!key\"", Clip(s))
	text := strings.TrimSpace(s)
	var c Condition
	if key, value, ok := strings.Cut(text, "!="); ok {
		c = Condition{strings.TrimSpace(key), "notin", []string{strings.TrimSpace(value)}}
	} else if key, value, ok := strings.Cut(text, "="); ok {
		c = Condition{strings.TrimSpace(key), "in", []string{strings.TrimSpace(value)}}
	} else if key, list, ok := strings.Cut(text, "("); ok {
		words := strings.Fields(key)
		inside, closed := strings.CutSuffix(strings.TrimSpace(list), ")")
		if len(words) != 2 || words[1] != "in" && words[1] != "notin" || !closed {
			return Condition{}, bad
		}
		c = Condition{Key: words[0], Op: words[1]}
		for v := range strings.SplitSeq(inside, ",") {
			c.Values = append(c.Values, strings.TrimSpace(v))
		}
	} else if key, not := strings.CutPrefix(text, "!"); not {
		c = Condition{Key: strings.TrimSpace(key), Op: "absent"}
	} else {
		c = Condition{Key: text, Op: "exists"}
	}
	if c.Key == "" || strings.ContainsAny(c.Key, " \t()!=") || slices.ContainsFunc(c.Values, func(v string) bool { return strings.ContainsAny(v, "()") }) {
		return Condition{}, bad
	}
	return c, nil
}

// Holds returns true if the labels meet the condition. A condition with the operator "notin" or
// "absent" is also met by a node that lacks the label.
func (c Condition) Holds(labels map[string]string) bool {
	v, ok := labels[c.Key]
	switch c.Op {
	case "in":
		return ok && slices.Contains(c.Values, v)
	case "notin":
		return !ok || !slices.Contains(c.Values, v)
	case "absent":
		return !ok
	default:
		return ok
	}
}

// A Near selects jobs by their labels. It also names a topology level. Two jobs in the same domain of
// that level count as near.
type Near struct {
	Labels map[string]string // a job must have all of them
	Level  Level
}

// ParseNear reads "key=value,key=value @level". If the text names no level, ParseNear uses the
// level "node".
func ParseNear(s string) (Near, error) {
	bad := fmt.Errorf("%q must be a list of labels with an optional topology level, for example \"app=db\" or \"app=web,tier=front @leaf\"", Clip(s))
	text, level, ok := strings.Cut(s, "@")
	n := Near{Labels: map[string]string{}, Level: LevelNode}
	if ok {
		n.Level = Level(strings.TrimSpace(level))
		if n.Level == "rack" {
			n.Level = LevelLeaf
		}
		if r := n.Level.Rank(); r < 0 || r > LevelNode.Rank() {
			return Near{}, fmt.Errorf("%q: the topology level must be region, zone, spine, leaf, rack or node, not %q", Clip(s), Clip(string(n.Level)))
		}
	}
	for pair := range strings.SplitSeq(text, ",") {
		k, v, ok := strings.Cut(strings.TrimSpace(pair), "=")
		if !ok || k == "" {
			return Near{}, bad
		}
		n.Labels[strings.TrimSpace(k)] = strings.TrimSpace(v)
	}
	return n, nil
}

// Of reports whether a job has all labels of the selector.
func (n Near) Of(labels map[string]string) bool {
	for k, v := range n.Labels {
		if labels[k] != v {
			return false
		}
	}
	return true
}

// A Toleration lets a job run on nodes that have a certain taint.
type Toleration struct {
	Key    string // "*" for every key
	Value  string
	Any    bool   // matches any value
	Effect Effect // "" for every effect
}

// ParseToleration reads "key", "key=value", "key=value:NoSchedule",
// "key:NoSchedule" or "*".
func ParseToleration(s string) (Toleration, error) {
	text, effect, _ := strings.Cut(s, ":")
	key, value, given := strings.Cut(text, "=")
	t := Toleration{Key: strings.TrimSpace(key), Value: strings.TrimSpace(value), Any: !given, Effect: Effect(effect)}
	if t.Key == "" || t.Effect != "" && t.Effect != NoSchedule && t.Effect != PreferNoSchedule {
		return Toleration{}, fmt.Errorf("%q is not a toleration: write \"key\", \"key=value\", \"key=value:NoSchedule\" or \"*\"", Clip(s))
	}
	return t, nil
}

// Tolerates reports whether the toleration matches a taint.
func (t Toleration) Tolerates(taint Taint) bool {
	return (t.Key == "*" || t.Key == taint.Key) && (t.Any || t.Value == taint.Value) && (t.Effect == "" || t.Effect == taint.Effect)
}
