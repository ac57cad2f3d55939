package gpu

import (
	"strings"
	"testing"
)

func TestParseQueryOfH200(t *testing.T) {
	q, err := parseQuery(sample(t, "h200x1.q.xml"))
	if err != nil {
		t.Fatal(err)
	}
	if q.driver != "580.159.04" || q.attached != 1 || len(q.cards) != 1 {
		t.Fatalf("%+v", q)
	}
	c := q.cards[0]
	if c.name != "NVIDIA H200" || c.memoryMB != 143771 || c.celsius != 34 || c.bus != "00000000:00:06.0" ||
		c.uuid != "GPU-00000000-0000-0000-0000-000000000000" || c.reason != "" || c.mig || len(c.processes) != 0 {
		t.Errorf("%+v", c)
	}
}

func TestParseQueryOfBrokenMachine(t *testing.T) {
	q, err := parseQuery(sample(t, "odd.q.xml"))
	if err != nil {
		t.Fatal(err)
	}
	if n := q.name(sample(t, "odd.list.txt")); n != 0 {
		t.Errorf("%d slices dropped", n)
	}
	if err := checkIDs(q.cards); err != nil {
		t.Error(err)
	}
	want := []string{ // ordered by PCI bus
		"0 GPU-00000000 ",
		"1 MIG-aaaaaaaa 3g.40gb 40192 MB of GPU-00000001 ",
		"1 MIG-bbbbbbbb 2g.20gb 19968 MB of GPU-00000001 ",
		"1 MIG-cccccccc 1g.10gb+me 9728 MB of GPU-00000001 ",
		"2 GPU-00000002 " + noSlices,
		"3 GPU-00000003 2 uncorrectable memory errors since its last reset",
		"4 GPU-00000004 the driver asks for a recovery: Reset",
		"5 GPU-00000005 " + rowPending,
		"6 GPU-00000006 NVLink fabric is not ready: In Progress",
		"7 PCI-00000000:BD:00.0 the card does not answer: GPU is lost",
	}
	var got []string
	for _, p := range places(q.cards, func(*card) int { return -1 }) {
		got = append(got, describe(p))
		if p.device.Healthy != (p.device.Reason == "") || p.device.NUMA != 0 || p.device.Type != "gpu" {
			t.Errorf("%+v", p.device)
		}
	}
	if a, b := strings.Join(got, "\n"), strings.Join(want, "\n"); a != b {
		t.Errorf("devices\n%s\nwant\n%s", a, b)
	}
}

func TestParseQueryOfOldDrivers(t *testing.T) {
	const frame = `<nvidia_smi_log><gpu id="00000000:06:00.0"><uuid>GPU-1</uuid>%</gpu></nvidia_smi_log>`
	for in, want := range map[string]string{
		`<ecc_errors><volatile><double_bit><device_memory>1</device_memory><total>1</total></double_bit></volatile></ecc_errors>`: eccFault(1),
		`<ecc_errors><volatile><double_bit><total>N/A</total></double_bit></volatile></ecc_errors>`:                               "",
		`<retired_pages><pending_retirement>Yes</pending_retirement></retired_pages>`:                                             pagePending,
		`<remapped_rows>N/A</remapped_rows><fabric><state>N/A</state></fabric>`:                                                   "",
		`<fabric><state>Completed</state><status>Unknown Error</status></fabric>`:                                                 "NVLink fabric is not ready: Unknown Error",
		`<temperature><gpu_temp>Unknown Error</gpu_temp></temperature>`:                                                           silent("Unknown Error"),
		`<remapped_rows><remapped_row_failure>Yes</remapped_row_failure></remapped_rows>`:                                         "a memory row could not be remapped",
	} {
		q, err := parseQuery([]byte(strings.Replace(frame, "%", in, 1)))
		if err != nil || len(q.cards) != 1 || q.cards[0].reason != want {
			t.Errorf("%s: %+v %v, want %q", in, q, err, want)
		}
	}
}

func TestParseQueryRefuses(t *testing.T) {
	for name, in := range map[string]string{
		"nothing": "", "an error": "Failed to initialize NVML: Driver/library version mismatch\n",
		"half": string(sample(t, "h200x1.q.xml")[:9000]), "too many": "<nvidia_smi_log>" + strings.Repeat("<gpu/>", maxGPUs+1) + "</nvidia_smi_log>",
	} {
		if q, err := parseQuery([]byte(in)); err == nil {
			t.Errorf("%s: no error but %+v", name, q)
		}
	}
}

func TestSlicesWithoutUUIDAreDropped(t *testing.T) {
	q, err := parseQuery(sample(t, "odd.q.xml"))
	if err != nil {
		t.Fatal(err)
	}
	if n := q.name([]byte("No devices found.\n")); n != 3 {
		t.Errorf("%d dropped", n)
	}
}

// FuzzParseQuery is best run with -fuzzminimizetime=10x, because its inputs are long.
func FuzzParseQuery(f *testing.F) {
	h200, _, _ := strings.Cut(string(sample(f, "h200x1.q.xml")), "<supported_clocks>") // the rest is not read
	f.Add([]byte(h200+"</gpu></nvidia_smi_log>"), []byte(""))
	f.Add(sample(f, "odd.q.xml"), sample(f, "odd.list.txt"))
	f.Fuzz(func(t *testing.T, in, list []byte) {
		q, err := parseQuery(in)
		if err != nil {
			return
		}
		q.name(list)
		if checkIDs(q.cards) != nil {
			return
		}
		var m Machine
		m.fill(places(q.cards, func(*card) int { return 0 }), func(a, b *card) string { return "NV1" })
		if len(m.Links) != len(m.Devices) {
			t.Fatalf("%d devices, %d links", len(m.Devices), len(m.Links))
		}
		for _, d := range m.Devices {
			if d.ID == "" || d.MemoryMB < 0 || d.Healthy == (d.Reason != "") {
				t.Fatalf("%+v", d)
			}
			if _, err := busy(q.cards, []string{d.ID}); err != nil && d.Healthy {
				t.Fatal(err)
			}
		}
	})
}
