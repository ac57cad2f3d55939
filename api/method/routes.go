package method

import (
	"net/http"
	"slices"
	"strings"
	"sync"

	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
)

// OpenAPI is the route of the OpenAPI document. The OpenAPI route is the only
// route that calls no RPC.
var OpenAPI = Route{HTTPMethod: http.MethodGet, Path: "/api/v1/openapi.json"}

var (
	byName = map[string]*Method{}
	// largeBodies has the paths of the methods with LargeBody, and publicPaths has the paths of the methods
	// with the scope Public. No path in largeBodies or publicPaths contains a variable such as {job_id}. The
	// list publicPaths also has the path of the OpenAPI document.
	largeBodies = map[string]bool{}
	publicPaths = map[string]bool{OpenAPI.Path: true}
)

// The function `load` adds the routes from the .proto files to the rows of the table, and indexes the rows. This takes milliseconds,
// so it is done when the table is first used: a command that only calls a server does not use it.
var load = sync.OnceFunc(func() {
	for i := range table {
		m := &table[i]
		m.Routes = append(m.Routes, contractRoutes(m.Name)...)
		if m.Status == 0 {
			m.Status = http.StatusOK
		}
		byName[m.Name] = m
		for _, r := range m.Routes {
			largeBodies[r.Path] = largeBodies[r.Path] || m.LargeBody
			publicPaths[r.Path] = publicPaths[r.Path] || m.IsPublic()
		}
	}
})

// rows returns the rows of the table, with their routes.
func rows() []Method {
	load()
	return table
}

// contractRoutes reads a method's routes from its google.api.http option.
func contractRoutes(name string) []Route {
	full := protoreflect.FullName(strings.ReplaceAll(strings.TrimPrefix(name, "/"), "/", "."))
	desc, err := protoregistry.GlobalFiles.FindDescriptorByName(full)
	if err != nil {
		return nil // a test reports a row without an RPC
	}
	rule, ok := proto.GetExtension(desc.Options(), annotations.E_Http).(*annotations.HttpRule)
	if !ok || rule == nil {
		return nil
	}
	var out []Route
	for _, r := range append([]*annotations.HttpRule{rule}, rule.GetAdditionalBindings()...) {
		for _, route := range []Route{
			{http.MethodGet, r.GetGet(), r.GetBody()},
			{http.MethodPost, r.GetPost(), r.GetBody()},
			{http.MethodPatch, r.GetPatch(), r.GetBody()},
			{http.MethodPut, r.GetPut(), r.GetBody()},
			{http.MethodDelete, r.GetDelete(), r.GetBody()},
		} {
			if route.Path != "" {
				out = append(out, route)
			}
		}
	}
	return out
}

// AllowsLargeBody reports whether the body of a request to a path may be as
// large as a batch of jobs.
func AllowsLargeBody(path string) bool {
	load()
	return largeBodies[path]
}

// IsPublicPath reports whether a path answers without a token.
func IsPublicPath(path string) bool {
	load()
	return publicPaths[path]
}

// Find returns the method and the route of an HTTP request. Find returns nil
// for an unknown path and for the path of the OpenAPI document.
func Find(httpMethod, path string) (*Method, Route) {
	all := rows()
	for i := range all {
		for _, r := range all[i].Routes {
			if r.HTTPMethod == httpMethod && r.matches(path) {
				return &all[i], r
			}
		}
	}
	return nil, Route{}
}

// HTTPMethods lists the HTTP methods that a path supports, sorted.
func HTTPMethods(path string) []string {
	var out []string
	add := func(r Route) {
		if r.matches(path) && !slices.Contains(out, r.HTTPMethod) {
			out = append(out, r.HTTPMethod)
		}
	}
	add(OpenAPI)
	for _, m := range rows() {
		for _, r := range m.Routes {
			add(r)
		}
	}
	slices.Sort(out)
	return out
}

func (r Route) matches(path string) bool {
	want, got := strings.Split(r.Path, "/"), strings.Split(path, "/")
	return slices.EqualFunc(want, got, func(w, g string) bool { return w == g || strings.HasPrefix(w, "{") })
}

// Variables returns the fields of the request that are variables in the path.
func (r Route) Variables() []string {
	var out []string
	for part := range strings.SplitSeq(r.Path, "/") {
		if name, ok := strings.CutPrefix(part, "{"); ok {
			name, _, _ = strings.Cut(name, "}")
			out = append(out, name)
		}
	}
	return out
}

// Values returns the values of a route's variables in a matching path.
func (r Route) Values(path string) []string {
	var out []string
	got := strings.Split(path, "/")
	for i, part := range strings.Split(r.Path, "/") {
		if strings.HasPrefix(part, "{") {
			out = append(out, got[i])
		}
	}
	return out
}
