package ares

import "testing"

// TestTextHidesWhatIsNotVisible checks that a text names an object only for a reader who may see it. A text inside another text must
// also hide the names.
func TestTextHidesWhatIsNotVisible(t *testing.T) {
	window := &Reservation{Name: "w", Tenant: "b", Queue: "q"}
	inner := Textf("reserved %s (%s)", window.For(), window.Ref())
	for _, c := range []struct {
		text       Text
		all, other string
	}{
		{PlainText("100% sure"), "100% sure", "100% sure"},
		{Textf("%d%% of %s", 5, "it"), "5% of it", "5% of it"},
		{Textf("after %s: it is %s", JobRef("job-1", "b", "q"), Running), "after job job-1: it is running", "after a job of another tenant: it is running"},
		{Textf("%d of %d nodes: %s", 1, 2, inner), "1 of 2 nodes: reserved for queue b/q (reservation w)", "1 of 2 nodes: reserved for another tenant (another tenant's reservation)"},
		{Textf("%s on %s", ScopeRef("b", ""), NodeRef("n1")), "tenant b on n1", "another tenant on n1"},
		{JoinTexts([]Text{PlainText("x"), inner, Textf("%s", ScopeRef("a", "q"))}, "; "), "x; reserved for queue b/q (reservation w); queue a/q", "x; reserved for another tenant (another tenant's reservation); queue a/q"},
	} {
		if got := c.text.String(); got != c.all {
			t.Errorf("got %q, want %q", got, c.all)
		}
		if got := c.text.Render(OwnedBy("a")); got != c.other {
			t.Errorf("tenant a reads %q, want %q", got, c.other)
		}
	}
	if got := Textf("%s", JobRef("job-1", "b", "q")).Render(func(r Ref) bool { return r.Kind == RefTenant }); got != "a job of another queue" {
		t.Errorf("a reader of another queue is told %q", got)
	}
}
