package history

import "strings"

// This method adds a condition that selects only rows in the given scopes. The depth of the condition does not depend on
// the number of scopes, because databases limit the depth of an expression (SQLite to 1,000). A reader with many role
// bindings must not lose its history.
func (q *query) within(tenant, queue string, scopes []Scope) {
	if scopes == nil {
		return
	}
	wholes, parts := distinct(scopes)
	var terms []string
	var args []any
	for _, s := range wholes {
		args = append(args, s.Tenant)
	}
	switch len(wholes) {
	case 0:
	case 1:
		terms = append(terms, tenant+" = ?")
	default:
		terms = append(terms, tenant+" IN "+placeholders(len(wholes)))
	}
	for _, s := range parts {
		args = append(args, s.Tenant, s.Queue)
	}
	switch len(parts) {
	case 0:
	case 1:
		terms = append(terms, "("+tenant+" = ? AND "+queue+" = ?)")
	default:
		pairs := strings.Repeat(", (?, ?)", len(parts))
		terms = append(terms, "("+tenant+", "+queue+") IN (VALUES "+strings.TrimPrefix(pairs, ", ")+")")
	}
	if len(terms) == 0 {
		terms = []string{"1 = 0"}
	}
	q.and("("+strings.Join(terms, " OR ")+")", args...)
}

// The function `distinct` returns the whole tenants and the single queues of a list of scopes, each once. A queue of a
// tenant that is included as a whole is left out.
func distinct(scopes []Scope) (wholes, parts []Scope) {
	seen := map[Scope]bool{}
	for _, s := range scopes {
		if s.Queue == "" && !seen[s] {
			seen[s] = true
			wholes = append(wholes, s)
		}
	}
	for _, s := range scopes {
		if !seen[s] && !seen[Scope{Tenant: s.Tenant}] {
			seen[s] = true
			parts = append(parts, s)
		}
	}
	return wholes, parts
}
