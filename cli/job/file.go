package job

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/cli/command"
)

// readJobs reads the jobs in a file. Each YAML document in the file is one job,
// or has a list of jobs under "jobs:".
func (a *commands) readJobs(name string) ([]*apipb.JobSpec, error) {
	data, err := a.ReadFile(name)
	if err != nil {
		return nil, err
	}
	specs, err := parseJobs(data)
	if err != nil {
		return nil, command.InFile(name, err)
	}
	return specs, nil
}

func parseJobs(data []byte) ([]*apipb.JobSpec, error) {
	documents, err := command.ToJSON(data)
	if err != nil {
		return nil, err
	}
	var specs []*apipb.JobSpec
	for i, doc := range documents {
		doc, err := withUnits(doc, time.Now())
		var got []*apipb.JobSpec
		if err == nil {
			got, err = parseDocument(doc)
		}
		if err != nil {
			if tables := documentLines(data); i < len(tables) {
				err = tables[i].locate(err)
			}
		}
		if err != nil && len(documents) > 1 {
			return nil, fmt.Errorf("document %d: %w", i+1, err)
		}
		if err != nil {
			return nil, err
		}
		specs = append(specs, got...)
	}
	if len(specs) == 0 {
		return nil, ares.Errorf(ares.Invalid, "the file has no job")
	}
	return specs, nil
}

func parseDocument(doc []byte) ([]*apipb.JobSpec, error) {
	var keys map[string]json.RawMessage
	if json.Unmarshal(doc, &keys) == nil && keys["jobs"] != nil {
		var many apipb.SubmitJobsRequest
		if err := apipb.UnmarshalJSON(doc, &many); err != nil {
			return nil, err
		}
		return many.GetJobs(), nil
	}
	spec := &apipb.JobSpec{}
	if err := apipb.UnmarshalJSON(doc, spec); err != nil {
		return nil, err
	}
	return []*apipb.JobSpec{spec}, nil
}
