package sim

import (
	"strings"
	"testing"
)

// TestQuotesCostOneRow: sacct quotes nothing, so a quote is part of a name there;
// in CSV one that is not closed loses its own row.
func TestQuotesCostOneRow(t *testing.T) {
	t.Parallel()
	trace, err := Read("slurm", strings.NewReader("JobID|JobName|Submit|ElapsedRaw|AllocTRES|\r\n"+
		"1|\"train|2026-01-01T00:00:00|60|gres/gpu=1|\r\n\r\n"+
		"2|a\"b\"|2026-01-01T00:00:01|60|gres/gpu=2|"))
	if err != nil || trace.Bad != 0 || len(trace.Arrivals) != 2 {
		t.Fatalf("%+v, %v", trace, err)
	}
	if a, b := trace.Arrivals[0], trace.Arrivals[1]; a.Spec.Name != `"train` || b.Spec.Name != `a"b"` || b.Spec.GPUs != 2 || b.Line != 4 {
		t.Errorf("read %+v and %+v", a, b)
	}
	trace, err = Read("philly", strings.NewReader(`timestamp,duration,num_gpus,cluster
2017-10-09 06:00:00,5,1,"a
2017-10-09 06:00:01,5,1,b"b
2017-10-09 06:00:02,5,1,"c, d"
2017-10-09 06:00:03,5,1,e
`))
	if err != nil || trace.Bad != 2 || trace.Problems[0].Line != 2 || trace.Problems[1].Line != 3 {
		t.Fatalf("%+v, %v", trace, err)
	}
	if len(trace.Arrivals) != 2 || trace.Arrivals[0].Spec.Tenant != "c, d" || trace.Arrivals[0].Line != 4 {
		t.Errorf("read %+v", trace.Arrivals)
	}
}
