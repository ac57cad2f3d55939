package spec

import (
	"os"
	"reflect"
	"testing"

	"go.yaml.in/yaml/v3"
)

// TestSchedulerConfig checks that config/scheduler-config.yaml has the values of
// document 003. The rows of the document start the scheduler with this file.
func TestSchedulerConfig(t *testing.T) {
	t.Parallel()
	file, err := os.ReadFile("../../config/scheduler-config.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var got, want map[string]any
	for _, d := range load(t) {
		for i := range d.Rows {
			if d.Number == "003" && d.Rows[i].Kind == "configuration" {
				if err := yaml.Unmarshal([]byte(d.Rows[i].Text), &want); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	if err := yaml.Unmarshal(file, &got); err != nil || len(want) == 0 || !reflect.DeepEqual(got, want) {
		t.Errorf("config/scheduler-config.yaml has %v (%v), the document %v", got, err, want)
	}
}
