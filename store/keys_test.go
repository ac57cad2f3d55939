package store

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestKeysAreDocumented compares the keys in the code with docs/reference/etcd-keys.md.
func TestKeysAreDocumented(t *testing.T) {
	page, err := os.ReadFile("../docs/reference/etcd-keys.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, found := strings.Cut(string(page), "## All keys of Ares")
	if !found {
		t.Fatal("the page has no table of all keys")
	}
	code, err := os.ReadFile("keys.go")
	if err != nil {
		t.Fatal(err)
	}
	keys := regexp.MustCompile(`= prefix \+ "([^"]+)"`).FindAllStringSubmatch(string(code), -1)
	if len(keys) < 25 {
		t.Fatalf("keys.go has %d keys", len(keys))
	}
	for _, k := range keys {
		if !strings.Contains(table, "`"+k[1]) {
			t.Errorf("the key %s is not in the table of all keys", k[1])
		}
	}
	rooms := regexp.MustCompile("`([a-z]+)(?:/|`)").FindAllStringSubmatch(table, -1)
	for _, r := range rooms {
		if !strings.Contains(string(code), `"`+r[1]) && r[1] != "store" {
			t.Errorf("the table has the key %s, which is not in the code", r[1])
		}
	}
}
