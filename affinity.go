package ares

import (
	"fmt"
	"slices"
	"strings"
)

// Condition is one thing asked of a node's labels.
type Condition struct {
	Key    string
	Op     string   // in, notin, exists or absent
	Values []string // of in and notin
}

// ParseCondition reads "key in (a, b)", "key notin (a)", "key=value",
// "key!=value", "key" or "!key".
func ParseCondition(s string) (Condition, error) {
	bad := fmt.Errorf("%q is not a condition: write \"key in (a, b)\", \"key notin (a)\", \"key=value\", \"key\" or \"!key\"", clip(s))
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

// Holds says whether labels are as the condition asks. A label that is not
// there is in no list.
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

// Near names jobs by their labels, and how near counts.
type Near struct {
	Labels map[string]string // all of them
	Level  Level
}

// ParseNear reads "key=value,key=value @level"; without a level it is the node.
func ParseNear(s string) (Near, error) {
	bad := fmt.Errorf("%q is not of the form \"app=db\" or \"app=web,tier=front @leaf\"", clip(s))
	text, level, ok := strings.Cut(s, "@")
	n := Near{Labels: map[string]string{}, Level: LevelNode}
	if ok {
		n.Level = Level(strings.TrimSpace(level))
		if n.Level == "rack" {
			n.Level = LevelLeaf
		}
		if r := n.Level.Rank(); r < 0 || r > LevelNode.Rank() {
			return Near{}, fmt.Errorf("%q: %q is not one of region, zone, spine, leaf, rack, node", clip(s), clip(string(n.Level)))
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

// Of says whether a job's labels are those asked for.
func (n Near) Of(labels map[string]string) bool {
	for k, v := range n.Labels {
		if labels[k] != v {
			return false
		}
	}
	return true
}

// Toleration lets a job onto nodes with a taint.
type Toleration struct {
	Key    string // "*" for every key
	Value  string
	Any    bool   // whatever the value
	Effect Effect // "" for every effect
}

// ParseToleration reads "key", "key=value", "key=value:NoSchedule",
// "key:NoSchedule" or "*".
func ParseToleration(s string) (Toleration, error) {
	text, effect, _ := strings.Cut(s, ":")
	key, value, given := strings.Cut(text, "=")
	t := Toleration{Key: strings.TrimSpace(key), Value: strings.TrimSpace(value), Any: !given, Effect: Effect(effect)}
	if t.Key == "" || t.Effect != "" && t.Effect != NoSchedule && t.Effect != PreferNoSchedule {
		return Toleration{}, fmt.Errorf("%q is not a toleration: write \"key\", \"key=value\", \"key=value:NoSchedule\" or \"*\"", clip(s))
	}
	return t, nil
}

// Tolerates says whether the toleration covers a taint.
func (t Toleration) Tolerates(taint Taint) bool {
	return (t.Key == "*" || t.Key == taint.Key) && (t.Any || t.Value == taint.Value) && (t.Effect == "" || t.Effect == taint.Effect)
}
