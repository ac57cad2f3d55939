package pki_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/ares-scheduler/ares/pki"
)

// TestMAC checks that a restored authority makes the same codes, and that another one, other data or another purpose does not.
func TestMAC(t *testing.T) {
	t.Parallel()
	a, err := pki.NewAuthority(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	sealed, err := a.Seal(nil)
	if err != nil {
		t.Fatal(err)
	}
	again, err := sealed.Open(nil)
	if err != nil {
		t.Fatal(err)
	}
	other, err := pki.NewAuthority(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	mac := a.MAC("p", []byte("data"))
	if !bytes.Equal(mac, again.MAC("p", []byte("data"))) {
		t.Error("the same authority, read again, makes another code")
	}
	for what, got := range map[string][]byte{"another authority": other.MAC("p", []byte("data")), "other data": a.MAC("p", []byte("date")), "another purpose": a.MAC("q", []byte("data"))} {
		if bytes.Equal(mac, got) {
			t.Errorf("%s: the same code", what)
		}
	}
}
