package job

import (
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/cli/exit"
)

// federationFlags are the flags that choose among the clusters of a hub.
type federationFlags struct {
	clusters, regions []string
	data              []string
}

func (s *federationFlags) add(f *pflag.FlagSet) {
	f.StringSliceVar(&s.clusters, "cluster", nil, "at a hub: clusters in which the job may run; may be repeated")
	f.StringSliceVar(&s.regions, "region", nil, "regions in which the job may run; may be repeated")
	f.StringArrayVar(&s.data, "data", nil, "at a hub: data that the job reads, URI or URI,region=REGION,bytes=N; may be repeated. With a region, the job runs only there")
}

func (s *federationFlags) apply(spec *apipb.JobSpec) error {
	if len(s.clusters) > 0 || len(s.regions) > 0 {
		if spec.Placement == nil {
			spec.Placement = &apipb.Placement{}
		}
		spec.Placement.Clusters = append(spec.Placement.Clusters, s.clusters...)
		spec.Placement.Regions = append(spec.Placement.Regions, s.regions...)
	}
	for _, text := range s.data {
		d, err := parseData(text)
		if err != nil {
			return err
		}
		spec.Data = append(spec.Data, d)
	}
	return nil
}

// parseData reads a dataset such as "s3://bucket/set,region=eu,bytes=1000000".
func parseData(text string) (*apipb.DataSet, error) {
	words := strings.Split(text, ",")
	d := &apipb.DataSet{Uri: words[0]}
	for _, w := range words[1:] {
		key, value, _ := strings.Cut(w, "=")
		switch key {
		case "region":
			d.Region = value
		case "bytes":
			n, err := strconv.ParseInt(value, 10, 64)
			if err != nil || n < 0 {
				return nil, exit.Usagef("--data %s: %q is not a number of bytes", text, value)
			}
			d.Bytes = n
		default:
			return nil, exit.Usagef("--data %s: %q is unknown: use URI, or URI,region=REGION,bytes=N", text, w)
		}
	}
	if d.Uri == "" {
		return nil, exit.Usagef("--data %s: the URI is missing: use URI, or URI,region=REGION,bytes=N", text)
	}
	return d, nil
}
