package scripts

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const units = "../../../deploy/systemd"

// This function reads a systemd unit file. The function returns a map from each
// setting, as "Section.Key", to the setting's values.
func settings(t *testing.T, name string) map[string][]string {
	t.Helper()
	f, err := os.Open(filepath.Join(units, name))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	out, section := map[string][]string{}, ""
	for lines := bufio.NewScanner(f); lines.Scan(); {
		line := strings.TrimSpace(lines.Text())
		switch key, value, ok := strings.Cut(line, "="); {
		case line == "" || strings.HasPrefix(line, "#"):
		case strings.HasPrefix(line, "[") && strings.HasSuffix(line, "]"):
			section = strings.Trim(line, "[]")
		case !ok || section == "":
			t.Errorf("%s: %q is no setting", name, line)
		default:
			out[section+"."+key] = append(out[section+"."+key], value)
		}
	}
	return out
}

// TestUnits checks the systemd settings that Ares's guarantees depend on. For
// example, jobs must outlive their agent, and no sandbox setting may block
// access to devices.
func TestUnits(t *testing.T) {
	for unit, want := range map[string]map[string]string{
		"ares-agent.service": {
			"Service.KillMode": "process", "Service.Delegate": "yes", "Service.Restart": "always",
			"Service.OOMPolicy": "continue", "Service.LimitNOFILE": "1048576", "Service.TasksMax": "infinity",
		},
		"ares-server.service": {"Service.Restart": "always", "Service.ProtectSystem": "strict", "Service.LimitNOFILE": "65536", "Service.User": "ares"},
		"etcd.service":        {"Service.Restart": "always", "Service.Type": "notify", "Service.LimitNOFILE": "65536"},
		"ares-backup.service": {"Service.Type": "oneshot"},
		"ares-backup.timer":   {"Timer.OnCalendar": "hourly", "Timer.Persistent": "yes"},
	} {
		got := settings(t, unit)
		for key, value := range want {
			if !slices.Equal(got[key], []string{value}) {
				t.Errorf("%s: %s is %q, want %s", unit, key, got[key], value)
			}
		}
		if strings.HasSuffix(unit, ".service") && len(got["Service.ExecStart"]) != 1 {
			t.Errorf("%s starts %q", unit, got["Service.ExecStart"])
		}
	}
	agent := settings(t, "ares-agent.service")
	for _, key := range []string{"PrivateDevices", "DevicePolicy", "DeviceAllow", "ProtectClock", "ProtectSystem", "ProtectHome", "PrivateTmp", "ProtectControlGroups", "MemoryDenyWriteExecute", "SystemCallFilter"} {
		if v := agent["Service."+key]; v != nil {
			t.Errorf("ares-agent.service sets %s=%s, which binds jobs too", key, v)
		}
	}
}

// TestExampleConfiguration checks that a server accepts the example
// configuration file.
func TestExampleConfiguration(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), filepath.Join(programs(t), "ares"), "config", "check", filepath.Join(units, "server.yaml"))
	cmd.Env = []string{"HOME=" + t.TempDir()}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}
