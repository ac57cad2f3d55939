package admin

import (
	"slices"
	"testing"

	"github.com/ares-scheduler/ares/apipb"
)

func TestLoanText(t *testing.T) {
	got := loanText([]*apipb.TenantLoan{
		{Cluster: "a", Gpus: new(int32(8)), Limit: new(int32(8))},
		{Cluster: "b", Gpus: new(int32(8)), Limit: new(int32(2)), GpuHours: new(40.0), GpuHoursLimit: new(40.0), GpuHoursUsed: new(12.25)},
		{Cluster: "c", GpuHours: new(40.0), GpuHoursLimit: new(30.0), GpuHoursUsed: new(12.0)},
		{Cluster: "d", Gpus: new(int32(0)), Limit: new(int32(0)), GpuHoursUsed: new(3.0)},
		{Cluster: "e"},
	}, (*apipb.TenantLoan).GetCluster)
	want := []string{
		"a: up to 8 GPUs",
		"b: up to 8 GPUs, being lowered to 2; 12.2 of 40.0 GPU-hours of this month used",
		"c: 12.0 of 40.0 GPU-hours of this month used, being lowered to 30.0",
		"d: up to 0 GPUs; 3.0 GPU-hours of this month used",
		"e: up to unlimited GPUs",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
