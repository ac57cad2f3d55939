package loopback_test

import (
	"testing"

	"github.com/ares-scheduler/ares/loopback"
)

// TestAddr checks that addresses of this machine are recognised in every spelling, and that other
// addresses are not.
func TestAddr(t *testing.T) {
	t.Parallel()
	for addr, want := range map[string]bool{
		"localhost:80": true, "127.0.0.1:80": true, "127.9.9.9:1": true, "[::1]:80": true, "localhost": true, "::1": true, "[::1]": true,
		"unix:/run/ares.sock": true, "": false, ":80": false, "10.0.0.1:80": false, "localhost.example.com:80": false,
		"127.0.0.1.example.com:80": false, "0.0.0.0:80": false, "[::]:80": false,
	} {
		if got := loopback.Addr(addr); got != want {
			t.Errorf("Addr(%q) = %v, want %v", addr, got, want)
		}
	}
	if loopback.Host("127.0.0.1:80") {
		t.Error("an address with a port counts as a host")
	}
}
