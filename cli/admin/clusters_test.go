package admin

import "testing"

// TestHubAddresses checks which address of a hub the command shows to another cluster.
func TestHubAddresses(t *testing.T) {
	for _, c := range []struct {
		all  []string
		want string
	}{
		{[]string{"hub-1:9090", "hub-2:9090"}, "hub-1:9090,hub-2:9090"},
		{[]string{"127.0.0.1:9091"}, "HUB:9091"}, // of no use in another machine
		{[]string{"[::1]:9090"}, "HUB:9090"},
		{[]string{"localhost:9090"}, "HUB:9090"},
		{[]string{"unix"}, "HUB:9090"},
	} {
		if got := hubAddresses(c.all); got != c.want {
			t.Errorf("%q: %s, want %s", c.all, got, c.want)
		}
	}
}
