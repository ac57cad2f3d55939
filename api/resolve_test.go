package api

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/history"
	"github.com/ares-scheduler/ares/store/storetest"
)

// The method `resolve` resolves a reference as the holder of a token.
func (e *estate) resolve(token, reference string, more ...string) answer {
	e.t.Helper()
	q := url.Values{"reference": {reference}}
	for i := 0; i < len(more); i += 2 {
		q.Add(more[i], more[i+1])
	}
	return e.do("GET", "/api/v1/jobs:resolve?"+q.Encode(), nil, bearing(token))
}

func bearing(token string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token) }
}

// The method `submitAs` submits a job as the holder of a token and returns its ID.
func (e *estate) submitAs(token string, more ...any) string {
	e.t.Helper()
	a := e.do("POST", "/api/v1/jobs", job(append([]any{"request_id", fmt.Sprint(time.Now().UnixNano())}, more...)...), bearing(token))
	if a.code != 201 {
		e.t.Fatal(a.body)
	}
	return a.json["job_id"].(string)
}

func matchesOf(a answer) []string {
	var out []string
	list, _ := a.json["matches"].([]any)
	for _, m := range list {
		out = append(out, m.(map[string]any)["job_id"].(string))
	}
	return out
}

// TestResolve checks which job each form of a reference means.
func TestResolve(t *testing.T) {
	e := newEstate(t)
	me, other := e.tokens["submitter"], e.tokens["tenant-admin"]
	old := e.submitAs(me, "tenant_id", "a", "name", "train")
	mine := e.submitAs(me, "tenant_id", "a", "name", "train")
	theirs := e.submitAs(other, "tenant_id", "a", "name", "train")
	only := e.submitAs(me, "tenant_id", "a", "name", "größe 🚀/x y")
	flag := e.submitAs(me, "tenant_id", "a", "name", "--all")
	asID := e.submitAs(other, "tenant_id", "a", "name", mine)         // a name that is the ID of another job
	asPrefix := e.submitAs(other, "tenant_id", "a", "name", mine[:9]) // and one that is the beginning of it
	plain := e.submitAs(other, "tenant_id", "a", "name", old[4:12])
	indexed := e.submitAs(me, "tenant_id", "a", "name", "model[7]")
	newest := e.submitAs(me, "tenant_id", "a", "name", "last")
	e.seen()
	for _, c := range []struct{ token, reference, want string }{
		{me, mine, mine},
		{me, mine[:12], mine},
		{me, mine[4:14], mine},
		{me, "@last", newest},
		{other, "@last", plain},
		{me, "train", mine},      // the newest of the caller's own live jobs
		{other, "train", theirs}, // the same name means another job to another user
		{me, "größe 🚀/x y", only},
		{me, "--all", flag},
		{me, mine[:9], mine},      // with "job-", an ID comes before a name
		{me, old[4:12], plain},    // without it, a name comes before an ID
		{me, "model[7]", indexed}, // no array has this name
	} {
		a := e.resolve(c.token, c.reference)
		if a.code != 200 || a.json["job_id"] != c.want {
			t.Errorf("%q is %s, want %s", c.reference, a.body, c.want)
		}
	}
	if a := e.resolve(me, "train"); a.json["several"] != true {
		t.Errorf("the answer does not say that several jobs have the name: %s", a.body)
	}
	if a := e.resolve(me, mine); a.json["job_id"] != mine { // never the job of this name
		t.Errorf("an ID is %s, and %s has it as its name", a.body, asID)
	}
	// What changes a job is never told one of several.
	for reference, want := range map[string][]string{
		"train":   {theirs, mine, old},
		mine[:9]:  {asPrefix, mine},
		old[4:12]: {plain, old},
	} {
		a := e.resolve(me, reference, "unique", "true")
		if got := matchesOf(a); a.code != 200 || a.json["job_id"] != "" || !slices.Equal(got, want) {
			t.Errorf("%q matches %v, want %v: %s", reference, got, want, a.body)
		}
	}
	for _, reference := range []string{"nothing", "job-", "job-abc", "zzz", "@first", "train ", "Train", "TRAIN", "x[1]", strings.ToUpper(mine), mine + "[0]", "@last[0]", "\x1b[31mtrain"} {
		if a := e.resolve(me, reference); a.code != 404 {
			t.Errorf("%q: %d %s", reference, a.code, a.body)
		}
	}
	e.refused(e.resolve(me, "job-abc"), 404, ares.NotFound, "at least 4 characters")
	e.refused(e.resolve(me, ""), 400, ares.Invalid, "reference")
	e.refused(e.resolve(me, strings.Repeat("x", 600)), 400, ares.Invalid, "reference")
	e.refused(e.resolve(me, "train", "state", "odd"), 400, ares.Invalid, "odd")
}

// TestResolveByState checks that a command finds the one job of a name on which it can act.
func TestResolveByState(t *testing.T) {
	e := newEstate(t)
	me := e.tokens["submitter"]
	ended := e.submitAs(me, "tenant_id", "a", "name", "train")
	live := e.submitAs(me, "tenant_id", "a", "name", "train")
	if a := e.do("DELETE", "/api/v1/jobs/"+ended, nil, bearing(me)); a.code != 200 {
		t.Fatal(a.body)
	}
	e.seen()
	for state, want := range map[string]string{"pending,running": live, "cancelled": ended} {
		if a := e.resolve(me, "train", "unique", "true", "state", state); a.json["job_id"] != want {
			t.Errorf("%s: %s, want %s", state, a.body, want)
		}
	}
	// If no job is in one of the states, the others are listed.
	if a := e.resolve(me, "train", "unique", "true", "state", "failed"); len(matchesOf(a)) != 2 {
		t.Errorf("failed: %s", a.body)
	}
	a := e.do("GET", "/api/v1/jobs?user=me", nil, bearing(me))
	if list, _ := a.json["jobs"].([]any); len(list) != 2 {
		t.Errorf("the caller's own jobs are %s", a.body)
	}
	if a = e.do("GET", "/api/v1/jobs?user=me&all=true", nil, bearing(e.tokens["viewer"])); strings.Contains(a.body, live) {
		t.Errorf("a viewer has jobs: %s", a.body)
	}
}

// TestResolveHidesOtherTenants checks that a reference to a job of another tenant gets the same answer as a reference to
// no job, whatever its form.
func TestResolveHidesOtherTenants(t *testing.T) {
	e := newEstate(t)
	there := e.submitAs(e.tokens["platform-admin"], "tenant_id", "b", "name", "secret-plan", "array", map[string]any{"count": 3})
	absent := string(ares.NewJobID("c", "none"))
	e.seen()
	for _, role := range []string{"viewer", "submitter", "tenant-admin", "auditor"} {
		for _, pair := range [][2]string{{there, absent}, {there[:12], absent[:12]}, {there[4:20], absent[4:20]}, {"secret-plan", "another-one"}, {there + "[1]", absent + "[1]"}, {"secret-plan[1]", "another-one[1]"}} {
			for _, unique := range []string{"false", "true"} {
				got, want := e.resolve(e.tokens[role], pair[0], "unique", unique), e.resolve(e.tokens[role], pair[1], "unique", unique)
				if got.code != 404 || strings.ReplaceAll(got.body, strings.TrimSuffix(pair[0], "[1]"), "X") != strings.ReplaceAll(want.body, strings.TrimSuffix(pair[1], "[1]"), "X") {
					t.Errorf("%s: %s is answered with %d %s, and %s with %d %s", role, pair[0], got.code, got.body, pair[1], want.code, want.body)
				}
			}
		}
	}
	if a := e.resolve(e.tokens["platform-admin"], "secret-plan"); a.json["job_id"] != there {
		t.Errorf("an administrator gets %s", a.body)
	}
}

func TestResolveElements(t *testing.T) {
	e := newEstate(t)
	me := e.tokens["submitter"]
	id := e.submitAs(me, "tenant_id", "a", "name", "sweep", "array", map[string]any{"count": 5})
	single := e.submitAs(me, "tenant_id", "a", "name", "sweep") // newer, but not an array
	lead, resign := storetest.NewLead(t, e.store)
	defer resign()
	node := storetest.NewNode(t, e.store)
	storetest.Grow(t, e.store, lead, &ares.Job{ID: ares.JobID(id)}, 3, node)
	e.seen()
	element := string(ares.ElementID(ares.JobID(id), 2))
	for _, reference := range []string{id + "[2]", "sweep[2]", id[:10] + "[2]", id[4:12] + "[2]", element, element[:14]} {
		if a := e.resolve(me, reference, "unique", "true"); a.json["job_id"] != element {
			t.Errorf("%s: %s, want %s", reference, a.body, element)
		}
	}
	e.refused(e.resolve(me, "sweep[4]"), 404, ares.NotFound, "element 4 of array "+id+" has not been created yet")
	e.refused(e.resolve(me, "sweep[5]"), 404, ares.NotFound, "use an index from 0 to 4")
	e.refused(e.resolve(me, single+"[0]"), 404, ares.NotFound, "is not an array")
}

// TestResolveArchived checks that archived jobs are found when no live job matches.
func TestResolveArchived(t *testing.T) {
	e := newEstate(t)
	put := func(tenant, name string, revision int64) string {
		spec := ares.Spec{Tenant: tenant, RequestID: fmt.Sprint(revision), Name: name, Command: []string{"true"}}.WithDefaults()
		j := ares.Job{Spec: spec, ID: ares.NewJobID(tenant, spec.RequestID), AcceptedAt: time.Unix(1700000000+revision, 0), Revision: revision, Owner: "token:a/submitter"}
		run := ares.NewRun(j.AcceptedAt)
		run.Phase, run.FinishedAt, run.Revision = ares.Succeeded, j.AcceptedAt.Add(time.Minute), revision
		_, err := e.past.Put(t.Context(), []history.Finished{{Job: &j, Run: &run}})
		must(t, err)
		return string(j.ID)
	}
	first, second, foreign := put("a", "old", 101), put("a", "old", 102), put("b", "theirs", 103)
	me := e.tokens["submitter"]
	for reference, want := range map[string]string{first: first, first[:14]: first, first[4:12]: first, "old": second, "@last": second} {
		if a := e.resolve(me, reference); a.json["job_id"] != want {
			t.Errorf("%s: %s, want %s", reference, a.body, want)
		}
	}
	if got := matchesOf(e.resolve(me, "old", "unique", "true")); !slices.Equal(got, []string{second, first}) {
		t.Errorf("old matches %v", got)
	}
	for _, reference := range []string{foreign, foreign[:14], "theirs"} {
		if a := e.resolve(me, reference); a.code != 404 {
			t.Errorf("%s: %s", reference, a.body)
		}
	}
	live := e.submitAs(me, "tenant_id", "a", "name", "old")
	e.seen()
	if a := e.resolve(me, "old", "unique", "true"); a.json["job_id"] != live {
		t.Errorf("a live job comes first: %s", a.body)
	}
}
