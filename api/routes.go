package api

import (
	"net/http"
	"slices"
	"strings"
	"sync"

	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/ares-scheduler/ares/apipb"
)

// route is one REST path of the contract, and the method it calls.
type route struct{ method, path, call string }

// extra are the routes that are not generated: streams and documents.
var extra = []route{
	{http.MethodGet, "/api/v1/debug/store", apipb.ClusterService_DumpStore_FullMethodName},
	{http.MethodGet, "/api/v1/events", apipb.ClusterService_WatchEvents_FullMethodName},
	{http.MethodGet, "/api/v1/jobs/{job_id}/logs", apipb.JobService_StreamLogs_FullMethodName},
	{http.MethodGet, "/api/v1/openapi.json", "/GetOpenAPI"},
}

// routes lists every REST route, read from the contract itself.
var routes = sync.OnceValue(readRoutes)

func readRoutes() []route {
	out := slices.Clone(extra)
	for _, file := range []protoreflect.FileDescriptor{
		apipb.File_apipb_job_proto, apipb.File_apipb_cluster_proto, apipb.File_apipb_queue_proto, apipb.File_apipb_topology_proto,
		apipb.File_apipb_reservation_proto, apipb.File_apipb_pki_proto, apipb.File_apipb_audit_proto, apipb.File_apipb_policy_proto,
		apipb.File_apipb_history_proto, apipb.File_apipb_identity_proto,
	} {
		for i := range file.Services().Len() {
			service := file.Services().Get(i)
			methods := service.Methods()
			for k := range methods.Len() {
				rule, ok := proto.GetExtension(methods.Get(k).Options(), annotations.E_Http).(*annotations.HttpRule)
				if !ok || rule == nil {
					continue
				}
				for _, r := range append([]*annotations.HttpRule{rule}, rule.GetAdditionalBindings()...) {
					at := routeOf(r)
					at.call = "/" + string(service.FullName()) + "/" + string(methods.Get(k).Name())
					out = append(out, at)
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
			return route{method: method, path: path}
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

// routeFor finds the route that a request takes, with the values of its path.
func routeFor(method, path string) (at *route, values []string) {
	for _, r := range routes() {
		if r.method != method || !r.matches(path) {
			continue
		}
		for i, part := range strings.Split(r.path, "/") {
			if strings.HasPrefix(part, "{") {
				values = append(values, strings.Split(path, "/")[i])
			}
		}
		return &r, values
	}
	return nil, nil
}

func (r route) matches(path string) bool {
	want, got := strings.Split(r.path, "/"), strings.Split(path, "/")
	return slices.EqualFunc(want, got, func(w, g string) bool { return w == g || strings.HasPrefix(w, "{") })
}
