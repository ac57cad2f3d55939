package job

import (
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/ares-scheduler/ares/apipb"
)

func TestFederationFlags(t *testing.T) {
	flags := federationFlags{clusters: []string{"west"}, regions: []string{"eu"}, data: []string{"s3://b/x,region=eu,bytes=12", "gs://y"}}
	var spec apipb.JobSpec
	if err := flags.apply(&spec); err != nil {
		t.Fatal(err)
	}
	want := &apipb.JobSpec{
		Placement: &apipb.Placement{Clusters: []string{"west"}, Regions: []string{"eu"}},
		Data:      []*apipb.DataSet{{Uri: "s3://b/x", Region: "eu", Bytes: 12}, {Uri: "gs://y"}},
	}
	if !proto.Equal(&spec, want) {
		t.Errorf("got %v, want %v", &spec, want)
	}
	for _, bad := range []string{"", ",region=eu", "x,bytes=-1", "x,bytes=many", "x,size=1"} {
		if d, err := parseData(bad); err == nil {
			t.Errorf("%q is %v", bad, d)
		}
	}
}
