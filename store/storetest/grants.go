package storetest

import (
	"strings"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/store"
)

// joinWith makes a node join with a token that has a grant.
func joinWith(t *testing.T, s *store.Store, node string, g ares.NodeGrant) {
	t.Helper()
	j := newJoin(t, s, node)
	if _, err := s.DeleteJoinToken(t.Context(), j.ID); err != nil {
		t.Fatal(err)
	}
	j.Grant = g
	if err := s.CreateJoinToken(t.Context(), j); err != nil {
		t.Fatal(err)
	}
	if _, err := s.UseJoinToken(t.Context(), j.ID, j.Hash, node, []byte("k"), Noon); err != nil {
		t.Fatal(err)
	}
}

// labelsOf reads the labels in the stored record of a node.
func labelsOf(t *testing.T, s *store.Store, node string) map[string]string {
	t.Helper()
	raw := Records(t, s, "nodes/"+node)
	if len(raw) != 1 {
		t.Fatalf("node %s has the records %v", node, raw)
	}
	out := map[string]string{}
	labels, _ := body(t, raw[0], "node")["labels"].(map[string]any)
	for k, v := range labels {
		out[k], _ = v.(string)
	}
	return out
}

// grantJoined checks that a node has what its join token grants, and is rejected if it claims more: when
// it opens a session, and when it reports changes.
func grantJoined(t *testing.T, s *store.Store) {
	node := ares.Node{ID: Name("node"), CPUs: 8, MemoryMB: 1000, Labels: map[string]string{"zone": "a"}}
	joinWith(t, s, node.ID, ares.NodeGrant{Labels: map[string]string{"ares.io/pool": "dev"}, MaxGPUs: 1})
	claims := func(edit func(*ares.Node)) ares.Node {
		n := node
		n.Labels = map[string]string{"zone": "a"}
		edit(&n)
		return n
	}
	open := func(n ares.Node) (ares.Session, error) {
		return s.OpenSession(t.Context(), n, "instance-of-it", "server-1", 5*time.Minute, 0)
	}
	prod := claims(func(n *ares.Node) { n.Labels["ares.io/pool"] = "prod" })
	two := claims(func(n *ares.Node) { n.Devices = []ares.Device{{ID: "a"}, {ID: "b"}} })
	_, err := open(prod)
	refused(t, err, ares.Forbidden, "not granted the label ares.io/pool=prod", "ares node label")
	_, err = open(two)
	refused(t, err, ares.Forbidden, "at most 1", "ares node token create")
	session, err := open(node)
	if err != nil {
		t.Fatal(err)
	}
	if got := labelsOf(t, s, node.ID); got["ares.io/pool"] != "dev" || got["zone"] != "a" {
		t.Errorf("its labels are %v", got)
	}
	refused(t, s.UpdateNode(t.Context(), prod, session.Revision), ares.Forbidden, "not granted")
	refused(t, s.UpdateNode(t.Context(), two, session.Revision), ares.Forbidden, "at most 1")
	if err = s.UpdateNode(t.Context(), node, session.Revision); err != nil {
		t.Error(err)
	}
	if got := labelsOf(t, s, node.ID); got["ares.io/pool"] != "dev" {
		t.Errorf("after a report its labels are %v", got)
	}
	if _, err = s.Revoke(t.Context(), store.Revocation{Node: node.ID, At: Noon}, Noon); err != nil {
		t.Fatal(err)
	}
	if session, err = open(node); err != nil {
		t.Fatal(err) // with the shared node token
	}
	if got := labelsOf(t, s, node.ID); got["ares.io/pool"] != "" {
		t.Errorf("after its revocation its labels are %v", got)
	}
	joinWith(t, s, node.ID, ares.NodeGrant{MaxGPUs: 2})
	if err = s.UpdateNode(t.Context(), two, session.Revision); err != nil {
		t.Errorf("with another join token: %v", err)
	}
}

// grantRepeated lets a node repeat its join. It must not get back what an administrator has taken from it since then, neither with the
// token of its last join nor with an older one.
func grantRepeated(t *testing.T, s *store.Store) {
	node, older := Name("node"), ares.NodeGrant{Labels: map[string]string{"ares.io/pool": "prod"}}
	join := func(id string, key string) error {
		_, err := s.UseJoinToken(t.Context(), id, []byte("secret"), node, []byte(key), Noon)
		return err
	}
	token := func(g ares.NodeGrant) string {
		t.Helper()
		j := store.JoinToken{ID: strings.ToLower(Name("join")), Hash: []byte("secret"), Node: node, CreatedAt: Noon, ExpiresAt: Noon.Add(time.Hour), Grant: g}
		if err := s.CreateJoinToken(t.Context(), j); err != nil {
			t.Fatal(err)
		}
		return j.ID
	}
	granted := func() ares.NodeGrant {
		t.Helper()
		c, err := s.LabelNode(t.Context(), node, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		return c.Before
	}
	first := token(older)
	if err := join(first, "k"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.LabelNode(t.Context(), node, nil, []string{"ares.io/pool"}); err != nil {
		t.Fatal(err)
	}
	if err := join(first, "k"); err != nil {
		t.Errorf("the same key again: %v", err)
	}
	if got := granted(); got.Labels["ares.io/pool"] != "" {
		t.Errorf("after the repeated join, the grant is %+v", got)
	}
	second := token(ares.NodeGrant{MaxGPUs: 1})
	if err := join(second, "k"); err != nil {
		t.Fatal(err)
	}
	refused(t, join(first, "k"), ares.Unauthentic, "no longer valid")
	if got := granted(); got.MaxGPUs != 1 || len(got.Labels) > 0 {
		t.Errorf("after the older token, the grant is %+v", got)
	}
	revoke(t, s, node)
	refused(t, join(second, "k"), ares.Unauthentic, "no longer valid")
}

// grantLabelled checks that an administrator's labels reach a node at once, and stay across its sessions.
func grantLabelled(t *testing.T, s *store.Store) {
	_, err := s.LabelNode(t.Context(), Name("nobody"), map[string]string{"a": "b"}, nil)
	refused(t, err, ares.NotFound, "there is no node")
	n := NewNode(t, s)
	n.Labels = map[string]string{"zone": "a"}
	n.Open(t, s, 5*time.Minute)
	n.Labels = map[string]string{"zone": "a", "ares.io/pool": "prod"}
	refused(t, s.UpdateNode(t.Context(), n.Node, n.Session), ares.Forbidden, "not granted")
	c, err := s.LabelNode(t.Context(), n.ID, map[string]string{"ares.io/pool": "prod", "zone": "b"}, nil)
	if err != nil || !c.Before.IsZero() || c.After.Labels["zone"] != "b" || c.Revision == 0 {
		t.Fatalf("labelled: %+v, %v", c, err)
	}
	if got := labelsOf(t, s, n.ID); got["ares.io/pool"] != "prod" || got["zone"] != "b" {
		t.Errorf("its labels are %v", got)
	}
	if err = s.UpdateNode(t.Context(), n.Node, n.Session); err != nil {
		t.Errorf("what was granted meanwhile: %v", err)
	}
	n.Open(t, s, 5*time.Minute)
	if got := labelsOf(t, s, n.ID); got["ares.io/pool"] != "prod" || got["zone"] != "b" {
		t.Errorf("in its next session its labels are %v", got)
	}
	if c, err = s.LabelNode(t.Context(), n.ID, nil, nil); err != nil || len(c.After.Labels) != 2 {
		t.Errorf("it is granted %+v, %v", c, err)
	}
	if _, err = s.LabelNode(t.Context(), n.ID, nil, []string{"ares.io/pool", "zone"}); err != nil {
		t.Fatal(err)
	}
	if got := labelsOf(t, s, n.ID); len(got) != 0 {
		t.Errorf("after the removal its labels are %v", got)
	}
	refused(t, s.UpdateNode(t.Context(), n.Node, n.Session), ares.Forbidden, "not granted")
	_, err = s.LabelNode(t.Context(), n.ID, map[string]string{"": "b"}, nil)
	refused(t, err, ares.Invalid, "not a usable key")
	n.Close(t, s)
	before := n.Revision(t, s)
	if _, err = s.LabelNode(t.Context(), n.ID, map[string]string{"ares.io/pool": "late"}, nil); err != nil {
		t.Fatal(err)
	}
	if after := n.Revision(t, s); after != before {
		t.Errorf("the record of a node without a session was written at %d, it was from %d: the timer of its loss begins again", after, before)
	}
}
