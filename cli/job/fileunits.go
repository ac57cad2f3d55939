package job

import (
	"encoding/json"
	"time"

	"github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
)

// A job file may have these fields with units beside the fields of the API: "gpus: h100:4", "mem: 64G" and "time: 4h". The
// field start.begin may have every form of --begin.

// withUnits replaces the fields with units in a document by the fields of the API. It leaves other documents as they are,
// so that their mistakes are reported in the usual way.
func withUnits(doc []byte, now time.Time) ([]byte, error) {
	var job map[string]json.RawMessage
	if json.Unmarshal(doc, &job) != nil {
		return doc, nil
	}
	if list := job["jobs"]; list != nil {
		var jobs []json.RawMessage
		if json.Unmarshal(list, &jobs) != nil {
			return doc, nil
		}
		for i := range jobs {
			var err error
			if jobs[i], err = withUnits(jobs[i], now); err != nil {
				return nil, err
			}
		}
		return replaced(job, "jobs", jobs)
	}
	spec, changed := &apipb.JobSpec{}, false
	for _, field := range []struct {
		name  string
		apply func(text string) error
		set   func() map[string]any
	}{
		{"gpus", func(text string) error { return setGPUs(spec, text) }, func() map[string]any {
			if spec.GetGpuModel() == "" {
				return map[string]any{"gpu_count": spec.GetGpuCount()}
			}
			return map[string]any{"gpu_count": spec.GetGpuCount(), "gpu_model": spec.GetGpuModel()}
		}},
		{"mem", func(text string) (err error) { spec.MemoryMb, err = memoryOf(text); return err }, func() map[string]any { return map[string]any{"memory_mb": spec.GetMemoryMb()} }},
		{"time", func(text string) (err error) { spec.MaxRuntimeMinutes, err = minutesOf(text); return err }, func() map[string]any { return map[string]any{"max_runtime_minutes": spec.GetMaxRuntimeMinutes()} }},
	} {
		text, ok := textOf(job[field.name])
		if !ok {
			continue
		}
		if err := field.apply(text); err != nil {
			return nil, ares.Errorf(ares.Invalid, "%s: %s", field.name, err).At(field.name)
		}
		delete(job, field.name)
		changed = true
		for name, value := range field.set() {
			if job[name] != nil {
				return nil, ares.Errorf(ares.Invalid, "%s: the job also has %s: leave one of the two out", field.name, name).At(field.name)
			}
			job[name], _ = json.Marshal(value) // a number or a text
		}
	}
	began, err := replaceBegin(job, now)
	if err != nil || !began && !changed {
		return doc, err
	}
	return json.Marshal(job)
}

// replaceBegin replaces the field start.begin by a time of the API. It reports whether the job has the field.
func replaceBegin(job map[string]json.RawMessage, now time.Time) (bool, error) {
	var start map[string]json.RawMessage
	if json.Unmarshal(job["start"], &start) != nil {
		return false, nil
	}
	text, ok := textOf(start["begin"])
	if !ok {
		return false, nil
	}
	at, err := beginOf(text, now)
	if err != nil {
		return false, ares.Errorf(ares.Invalid, "start.begin: %s", err).At("start.begin")
	}
	if start["begin"], err = json.Marshal(at.UTC().Format(time.RFC3339Nano)); err != nil {
		return false, err
	}
	job["start"], err = json.Marshal(start)
	return true, err
}

// textOf returns the text of a field that is a text or a number.
func textOf(raw json.RawMessage) (string, bool) {
	var text string
	var number json.Number
	switch {
	case len(raw) == 0:
		return "", false
	case json.Unmarshal(raw, &text) == nil:
		return text, true
	case json.Unmarshal(raw, &number) == nil:
		return number.String(), true
	}
	return "", false
}

func replaced(job map[string]json.RawMessage, name string, value any) ([]byte, error) {
	raw, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	job[name] = raw
	return json.Marshal(job)
}
