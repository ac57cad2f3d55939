package admin

import (
	"testing"

	"github.com/ares-scheduler/ares/apipb"
)

func TestReadQuota(t *testing.T) {
	for text, want := range map[string]string{
		"h100=16":                 "h100: 16 GPUs, borrows without limit, lends all",
		"h100=16,borrow=8,lend=4": "h100: 16 GPUs, borrows up to 8, lends 4",
		"*=3, lend=0":             "all models: 3 GPUs, borrows without limit, lends 0",
	} {
		q, err := readQuota(text)
		if err != nil || quotaText([]*apipb.Quota{q})[0] != want {
			t.Errorf("%q is read as %v, %v", text, q, err)
		}
	}
	for _, text := range []string{"", "16", "=16", "h100=many", "h100=1,borrow", "h100=1,steal=2", "h100=1,lend=1,lend=2", "h100=99999999999"} {
		if q, err := readQuota(text); err == nil {
			t.Errorf("%q is read as %v", text, q)
		}
	}
}
