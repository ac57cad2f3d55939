package host

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/cli/command"
)

// The function `states` joins the names and states of findings into one text
// for comparison.
func states(found []finding) string {
	var out []string
	for _, f := range found {
		out = append(out, f.What+" "+f.State)
		if f.State == fault && f.Remedy == "" {
			out = append(out, "without a remedy")
		}
	}
	return strings.Join(out, ", ")
}

func TestDoctorJudgesTheStore(t *testing.T) {
	well := func(at string) *apipb.StoreMember {
		return &apipb.StoreMember{Endpoint: at, HasLeader: true, SizeMb: 10, QuotaMb: 100}
	}
	silent := &apipb.StoreMember{Endpoint: "b", Error: "connection refused"}
	alone := &apipb.StoreMember{Endpoint: "c"}
	full := &apipb.StoreMember{Endpoint: "d", HasLeader: true, SizeMb: 90, QuotaMb: 100}
	for _, c := range []struct {
		name    string
		members []*apipb.StoreMember
		alarms  []string
		want    string
		words   string
	}{
		{"well", []*apipb.StoreMember{well("a"), well("b"), well("c")}, nil, "store ok", "3 of 3"},
		{"one down", []*apipb.StoreMember{well("a"), silent, well("c")}, nil, "store note", "b (connection refused)"},
		{"no majority", []*apipb.StoreMember{alone, silent, silent}, nil, "store fault", "no majority: 3 of 3 members of etcd do not answer: c (no leader), b (connection refused)"},
		{"half", []*apipb.StoreMember{well("a"), silent}, nil, "store fault", "no majority"},
		{"nearly full", []*apipb.StoreMember{full}, nil, "store ok, store space note", "90 of 100 MB"},
		{"full", []*apipb.StoreMember{well("a")}, []string{"NOSPACE"}, "store ok, store alarm fault", "etcdctl alarm disarm"},
		{"corrupt", []*apipb.StoreMember{well("a")}, []string{"CORRUPT"}, "store ok, store alarm fault", "CORRUPT"},
	} {
		found := examineStore(&apipb.GetServerStatusResponse{Members: c.members, Alarms: c.alarms})
		if got := states(found); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
		said := ""
		for _, f := range found {
			said += f.Detail + " " + f.Remedy + " "
		}
		if !strings.Contains(said, c.words) {
			t.Errorf("%s: %q does not say %q", c.name, said, c.words)
		}
	}
}

func TestDoctorJudgesHistory(t *testing.T) {
	for want, status := range map[string]*apipb.GetServerStatusResponse{
		"history ok":    {},
		"history fault": {HistoryError: "connection refused"},
		"history note":  {HistoryUpdating: true},
	} {
		f := examineHistory(status)
		if got := states([]finding{f}); got != want || f.State == note && f.Remedy != "" {
			t.Errorf("%v is judged %s (%s), want %s", status, got, f.Remedy, want)
		}
	}
}

func TestDoctorJudgesClocks(t *testing.T) {
	for _, c := range []struct {
		differs, unsure float64
		want            string
	}{{0, 0, fine}, {0.0005, 0, fine}, {-0.02, 0, note}, {0.02, 0.015, fine}, {0.2, 0, fault}, {-0.9, 0.1, fault}} {
		if got := rate("clock", "it", c.differs, c.unsure); got.State != c.want || (got.State == fine) != (got.Remedy == "") {
			t.Errorf("%+v: %+v", c, got)
		}
	}
	if found := wallClock("it", -time.Hour); len(found) != 1 || !strings.Contains(found[0].Detail, "1h0m0s behind") {
		t.Errorf("got %v", found)
	}
	if found := wallClock("it", time.Second); found != nil {
		t.Errorf("got %v", found)
	}
}

func TestDoctorKnowsWhyAServerIsNotReached(t *testing.T) {
	a := &commands{&command.App{}}
	for text, want := range map[string]string{
		"tls: first record does not look like a TLS handshake":                  "has no TLS",
		"x509: certificate signed by unknown authority":                         "--tls-ca",
		"x509: certificate is valid for a, not b":                               "a name of the certificate",
		"x509: certificate has expired or is not yet valid":                     "renew the server's certificate",
		"error reading server preface: EOF":                                     "add --tls",
		"dial tcp: lookup nowhere: no such host":                                "DNS",
		"connect: connection refused":                                           "systemctl status ares-server",
		"context deadline exceeded while waiting for connections to become rea": "firewall",
	} {
		if got := a.reach("ares.example.com:9090", errors.New(text)); !strings.Contains(got, want) {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	for _, word := range []string{"the store does not answer", "the store takes no writes", "the store was put back to an earlier time", "its view of the store lags behind", "the server is stopping"} {
		if notReadyRemedy("not ready: "+word) == notReadyRemedy("") {
			t.Errorf("%q has no remedy of its own", word)
		}
	}
}

func TestDoctorJudgesSpace(t *testing.T) {
	for mb, want := range map[int64]string{-1: note, 0: fault, 127: fault, 500: note, 5000: fine} {
		if got := space("free space", "here", mb); got.State != want {
			t.Errorf("%d MB: %+v", mb, got)
		}
	}
}
