package agent

import (
	"context"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/agent/gpu"
	"github.com/ares-scheduler/ares/apipb"
)

// TestHealthFollowsTheMachine checks that a device that fails, disappears or recovers is reported, and that a
// quarantined device stays in quarantine.
func TestHealthFollowsTheMachine(t *testing.T) {
	well, ill := ares.Device{ID: "a", Healthy: true}, ares.Device{ID: "a", Reason: "ecc"}
	held := ares.Device{ID: "a", Reason: quarantine + "processes of an ended job still use it"}
	for _, c := range []struct {
		name     string
		was, now []ares.Device
		want     []ares.Device // nil if there is nothing to report
	}{
		{"as before", []ares.Device{well}, []ares.Device{well}, nil},
		{"falls ill", []ares.Device{well}, []ares.Device{ill}, []ares.Device{ill}},
		{"recovers", []ares.Device{ill}, []ares.Device{well}, []ares.Device{well}},
		{"goes", []ares.Device{well}, nil, []ares.Device{{ID: "a", Reason: "the device is no longer there"}}},
		{"quarantined", []ares.Device{held}, []ares.Device{well}, nil},
		{"quarantined and hot", []ares.Device{held}, []ares.Device{{ID: "a", Healthy: true, Celsius: 80}}, []ares.Device{{ID: "a", Reason: held.Reason, Celsius: 80}}},
	} {
		got := mergeDevices(c.was, c.now)
		if (got == nil) != (c.want == nil) || got != nil && got[0] != c.want[0] {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

// TestOtherHeat checks that a change of five degrees is reported, and that a smaller change is reported if it crosses a multiple
// of ten. A device whose temperature stays around a multiple of ten must not be reported repeatedly.
func TestOtherHeat(t *testing.T) {
	for _, c := range []struct {
		told, now int
		want      bool
	}{
		{40, 40, false},
		{41, 44, false},
		{41, 45, false},
		{41, 46, true},
		{46, 41, true},
		{69, 70, false},
		{68, 70, true},
		{70, 69, false},
		{71, 69, true},
		{75, 76, false},
		{0, 0, false},
		{0, 1, true},
		{40, 0, true},
	} {
		if got := isNotableTemperature(c.told, c.now); got != c.want {
			t.Errorf("told %d, now %d: %v", c.told, c.now, got)
		}
	}
}

// The type `warming` is a fake machine with one device. The test sets the function `celsius`, which returns the device's
// temperature.
type warming struct {
	gpu.Source
	celsius func() int
}

func (w warming) Detect(context.Context) (gpu.Machine, error) {
	return gpu.Machine{Devices: []ares.Device{{ID: "a", Healthy: true, Celsius: w.celsius()}}}, nil
}

// The type `told` is a fake server that records the reported temperatures.
type told struct {
	apipb.AgentServiceClient
	celsius []int32
}

func (s *told) UpdateNode(_ context.Context, req *apipb.UpdateNodeRequest, _ ...grpc.CallOption) (*apipb.UpdateNodeResponse, error) {
	s.celsius = append(s.celsius, req.GetNode().GetDevices()[0].GetCelsius())
	return &apipb.UpdateNodeResponse{}, nil
}

// TestTemperaturesAreToldNowAndThen checks that a device that warms by a degree per second is reported about every ten seconds.
// The device must not be reported while its temperature only fluctuates.
func TestTemperaturesAreToldNowAndThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		celsius := func() int {
			s := int(time.Since(began) / time.Second)
			return min(40+s, 70) - s/10%2
		}
		a := &Agent{
			log: slog.New(slog.DiscardHandler), source: warming{celsius: celsius},
			node: ares.Node{ID: "n", Devices: []ares.Device{{ID: "a", Healthy: true, Celsius: celsius()}}},
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		server := &told{}
		if err := a.watchDevices(ctx, server, &apipb.SessionRef{NodeId: "n", Session: 1}); err == nil || ctx.Err() == nil {
			t.Fatal(err)
		}
		if want := []int32{49, 60, 69}; !slices.Equal(server.celsius, want) {
			t.Errorf("told %v, want %v", server.celsius, want)
		}
	})
}
