package history

import (
	"encoding/json"

	ares "github.com/ares-scheduler/ares"
)

// commonColumns are the columns that the tables finished_jobs and live_jobs share.
var commonColumns = []string{
	"job_id", "accepted_revision", "run_revision", "name", "tenant", "queue", "submitted_by", "phase", "reason", "outcome", "exit_code",
	"priority", "priority_class", "members", "gpus_per_member", "gpu_milli", "gpu_model", "cpu_cores", "memory_mb", "image",
	"is_array", "array_of", "array_index", "retry_of", "accepted_at", "started_at", "finished_at", "attempts", "retries", "preemptions",
	"gpu_memory_mb", "max_runtime_minutes", "gang_scheduling", "command", "args", "environment",
}

// The method `common` returns the values of commonColumns for a job.
func (d dialect) common(j *ares.Job, r *ares.Run) []any {
	outcome, exit := "", any(nil)
	if a := r.Last(); a != nil && a.Ended() {
		outcome, exit = string(a.Outcome), a.ExitCode
	}
	kept := WithoutEnvironment(j)
	return []any{
		string(j.ID), j.Revision, r.Revision, text(j.Name), j.Tenant, j.Queue, text(j.Owner), string(r.Phase), text(r.Reason), outcome, exit,
		j.PriorityValue(), string(j.PriorityClass), j.Members, j.GPUs, j.GPUMilli, text(j.GPUModel), ares.RoundUpCPUs(j.MilliCPUs()), j.MemoryMB, text(j.Image),
		j.IsArray(), string(j.ArrayOf), int(j.ArrayIndex), string(j.RetryOf), d.at(j.AcceptedAt), d.at(started(r)), d.at(r.FinishedAt), r.Placed, r.Retries, r.Preemptions,
		j.GPUMemoryMB, j.MaxRuntimeMinutes, j.Gang != nil && *j.Gang, list(j.Command), list(j.Args), object(kept.Environment),
	}
}

// The function `list` returns strings as a JSON array, the form in which the API shows them.
func list(values []string) string {
	if len(values) == 0 {
		return "[]"
	}
	return jsonText(values)
}

func object(values map[string]string) string {
	if len(values) == 0 {
		return "{}"
	}
	return jsonText(values)
}

func jsonText(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err) // strings can always be encoded
	}
	return text(string(data))
}
