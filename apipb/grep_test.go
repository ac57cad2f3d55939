package apipb_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/ares-scheduler/ares/apipb"
)

// TestGrepCost checks that no accepted expression takes long for one line of output. A node runs the expressions of all
// readers of its logs, and a search cannot be interrupted within a line.
func TestGrepCost(t *testing.T) {
	line := bytes.Repeat([]byte("a"), 64<<10)
	for _, text := range []string{
		strings.Repeat(`\pL{1000}`, 110), strings.Repeat(`\pL{1000}`, 20), `(.{1,30}){1,33}.{500}x`, strings.Repeat(`.{0,1000}`, 100) + "x",
		`((a{10}){10}){10}b{10}`, `(?:\PL?){1000}x`,
	} {
		if expression, err := apipb.CompileGrep(text); err == nil {
			began := time.Now()
			expression.Match(line)
			t.Errorf("%.30s... was accepted: one line takes %s", text, time.Since(began))
		}
	}
	for _, text := range []string{
		"", "error", `(?i)loss[:=]\s*\d+\.\d{1,6}`, `^\S+ (WARN|ERROR|FATAL) .*rank=\d{1,4}\b`, `[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`,
		`\pL{1,64}`, strings.Repeat("x", 1000), `(?:(?:25[0-5]|2[0-4]\d|1?\d?\d)\.){3}(?:25[0-5]|2[0-4]\d|1?\d?\d)`, `x*y+z?`,
	} {
		expression, err := apipb.CompileGrep(text)
		if err != nil {
			t.Errorf("%.30s: %v", text, err)
			continue
		}
		began := time.Now()
		expression.Match(line)
		if took := time.Since(began); took > 30*time.Second {
			t.Errorf("%.30s: one line takes %s", text, took)
		}
	}
	if _, err := apipb.CompileGrep("a(b"); err == nil {
		t.Error("an invalid expression was accepted")
	}
}
