package api

import (
	"net/http"
	"slices"
	"strings"

	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/ares-scheduler/ares/apipb"
)

// route is one REST path of the contract.
type route struct{ method, path string }

// extra are the routes that are not generated: streams and documents.
var extra = []route{
	{http.MethodGet, "/api/v1/debug/store"},
	{http.MethodGet, "/api/v1/events"},
	{http.MethodGet, "/api/v1/jobs/{job_id}/logs"},
	{http.MethodGet, "/api/v1/openapi.json"},
}

// routes lists every REST route, read from the contract itself.
func routes() []route {
	out := slices.Clone(extra)
	for _, file := range []protoreflect.FileDescriptor{
		apipb.File_apipb_job_proto, apipb.File_apipb_cluster_proto, apipb.File_apipb_queue_proto, apipb.File_apipb_topology_proto,
		apipb.File_apipb_reservation_proto, apipb.File_apipb_identity_proto, apipb.File_apipb_pki_proto,
	} {
		for i := range file.Services().Len() {
			methods := file.Services().Get(i).Methods()
			for k := range methods.Len() {
				rule, ok := proto.GetExtension(methods.Get(k).Options(), annotations.E_Http).(*annotations.HttpRule)
				if !ok || rule == nil {
					continue
				}
				for _, r := range append([]*annotations.HttpRule{rule}, rule.GetAdditionalBindings()...) {
					out = append(out, routeOf(r))
				}
			}
		}
	}
	return out
}

func routeOf(r *annotations.HttpRule) route {
	for method, path := range map[string]string{
		http.MethodGet: r.GetGet(), http.MethodPost: r.GetPost(), http.MethodPatch: r.GetPatch(),
		http.MethodPut: r.GetPut(), http.MethodDelete: r.GetDelete(),
	} {
		if path != "" {
			return route{method, path}
		}
	}
	return route{}
}

// methodsOf lists what a path takes.
func methodsOf(path string) []string {
	var out []string
	for _, r := range routes() {
		if r.matches(path) && !slices.Contains(out, r.method) {
			out = append(out, r.method)
		}
	}
	slices.Sort(out)
	return out
}

func (r route) matches(path string) bool {
	want, got := strings.Split(r.path, "/"), strings.Split(path, "/")
	return slices.EqualFunc(want, got, func(w, g string) bool { return w == g || strings.HasPrefix(w, "{") })
}
