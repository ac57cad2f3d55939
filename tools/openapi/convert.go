package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// The variable `created` lists the operations that answer 201 when they create an object. An operation with the
// value true answers 200 for a repeated request.
var created = map[string]bool{
	"JobService_SubmitJob": true, "JobService_RetryJob": true,
	"TenantService_CreateTenant": false, "QueueService_CreateQueue": false, "ReservationService_CreateReservation": false,
	"IdentityService_CreateToken": false, "IdentityService_CreateBinding": false, "TrustService_CreateJoinToken": false,
}

// The variable `anonymous` lists the operations that need no token.
var anonymous = []string{"ClusterService_GetHealth", "ClusterService_GetHealth2", "ClusterService_GetReady", "GetOpenAPI"}

// The type `failure` holds an HTTP status for failed calls, and the error codes that are mapped to this status.
type failure struct {
	status, name, text string
	codes              []any
}

var failures = []failure{
	{"400", "Invalid", "The request is wrong. details lists every field at fault.", []any{"invalid"}},
	{"401", "Unauthenticated", "There is no valid token.", []any{"unauthenticated"}},
	{"403", "Rejected", "The caller may not do this, or a rule or the state of the cluster forbids it.", []any{
		"forbidden", "quota_exceeded", "limit_reached", "priority_too_high", "policy_denied", "infeasible", "deadline_unreachable",
		"dependency_unknown", "dependency_failed", "feature_disabled", "certificate_required",
	}},
	{"404", "NotFound", "The object does not exist, or the caller may not know of it.", []any{"not_found"}},
	{"409", "Conflict", "The object changed meanwhile, or the request ID was used with another body.", []any{"conflict", "fenced"}},
	{"413", "TooLarge", "The request is larger than its limit.", []any{"too_large"}},
	{"429", "Exhausted", "The server is busy, or a rate limit was reached: try again after Retry-After seconds.", []any{"exhausted"}},
	{"500", "Internal", "A fault of the server. Its log has the details.", []any{"internal"}},
	{"503", "Unavailable", "A part of Ares is down. The outcome may be unknown: repeat with the same request_id.", []any{"unavailable"}},
}

// The type `document` is an OpenAPI document with its parts in a readable order.
type document struct {
	OpenAPI    string `json:"openapi"`
	Info       object `json:"info"`
	Servers    []any  `json:"servers"`
	Security   []any  `json:"security"`
	Tags       []any  `json:"tags"`
	Paths      object `json:"paths"`
	Components object `json:"components"`
}

// This function makes an OpenAPI 3.1 document from a Swagger 2.0 document.
func convert(swagger object, examples map[string]any) (*document, error) {
	paths, _ := swagger["paths"].(object)
	definitions, _ := swagger["definitions"].(object)
	tags, _ := swagger["tags"].([]any)
	out := object{}
	used := map[string]bool{}
	for path, operations := range paths {
		converted := object{}
		for method, operation := range operations.(object) {
			op := operation.(object)
			id := op["operationId"].(string)
			next, err := convertOperation(method, op, examples[id])
			if err != nil {
				return nil, fmt.Errorf("%s: %w", id, err)
			}
			converted[method], used[id] = next, true
			for _, tag := range op["tags"].([]any) {
				used[tag.(string)] = true
			}
		}
		out[path] = converted
	}
	for id := range examples {
		if !used[id] {
			return nil, fmt.Errorf("examples.json: there is no operation %s", id)
		}
	}
	maps.Copy(out, streams())
	schemas := object{"Error": errorSchema()}
	for name, schema := range definitions {
		schemas[schemaName(name)] = convertSchema(schema)
	}
	nullableLimits(schemas)
	responses := object{}
	for _, f := range failures {
		responses[f.name] = f.response()
	}
	return &document{
		OpenAPI: "3.1.0",
		Info: object{
			"title": "Ares API", "version": "v1",
			"description": "The REST API of Ares, a scheduler for GPU clusters. Every path but health, readiness and this document needs a bearer token.",
		},
		Servers:  []any{object{"url": "/", "description": "the server that answered with this document"}},
		Security: []any{object{"token": []any{}}},
		Tags:     slices.DeleteFunc(tags, func(tag any) bool { return !used[tag.(object)["name"].(string)] }),
		Paths:    out,
		Components: object{
			"schemas": schemas, "responses": responses,
			"securitySchemes": object{"token": object{"type": "http", "scheme": "bearer", "description": "A token of ares token create, or of the OpenID issuer."}},
		},
	}, nil
}

func convertOperation(method string, op object, example any) (object, error) {
	id := op["operationId"].(string)
	next := object{"operationId": id, "tags": op["tags"], "summary": firstSentence(op["summary"])}
	if text := joined(op["summary"], op["description"]); text != "" {
		next["description"] = text
	}
	if next["summary"] == "" {
		next["summary"] = words(id)
	}
	var parameters []any
	for _, p := range list(op["parameters"]) {
		p := p.(object)
		if p["in"] != "body" {
			parameters = append(parameters, convertParameter(p))
			continue
		}
		if example == nil {
			return nil, fmt.Errorf("the operation has no example in examples.json")
		}
		next["requestBody"] = object{
			"required": true,
			"content":  object{"application/json": object{"schema": convertSchema(p["schema"]), "example": example}},
		}
	}
	if parameters != nil {
		next["parameters"] = parameters
	}
	next["responses"] = answers(method, id, convertSchema(op["responses"].(object)["200"].(object)["schema"]), next["requestBody"] != nil)
	if slices.Contains(anonymous, id) {
		next["security"] = []any{}
	}
	return next, nil
}

// This function returns the responses of an operation. The keys of the result are HTTP status codes.
func answers(method, id string, schema any, hasBody bool) object {
	success := func(text string) object {
		return object{"description": text, "content": object{"application/json": object{"schema": schema}}}
	}
	out := object{}
	switch repeatable, creates := created[id]; {
	case creates:
		out["201"] = success("It was created.")
		if repeatable {
			out["200"] = success("The request was accepted before: the answer is that job's.")
		}
	default:
		out["200"] = success("Success.")
	}
	for _, f := range failures {
		switch {
		case slices.Contains(anonymous, id) && f.status != "503":
		case f.status == "409" && method == "get", f.status == "413" && !hasBody:
		default:
			out[f.status] = object{"$ref": "#/components/responses/" + f.name}
		}
	}
	return out
}

func (f failure) response() object {
	return object{
		"description": f.text,
		"content": object{"application/json": object{"schema": object{
			"allOf": []any{object{"$ref": "#/components/schemas/Error"}, object{"properties": object{"code": object{"enum": f.codes}}}},
		}}},
	}
}

func errorSchema() object {
	return object{
		"type": "object", "description": "The body of every answer to a failed call.", "required": []any{"error", "code", "details"},
		"properties": object{
			"error": object{"type": "string", "description": "What is wrong, and what to do."},
			"code":  object{"type": "string", "description": "What happened, for programs."},
			"details": object{"type": "array", "description": "The fields at fault.", "items": object{
				"type": "object", "required": []any{"field", "message"},
				"properties": object{"field": object{"type": "string"}, "message": object{"type": "string"}},
			}},
		},
		"examples": []any{object{
			"error": "gpu_count: must be between 0 and 1024, got -1", "code": "invalid",
			"details": []any{object{"field": "gpu_count", "message": "must be between 0 and 1024, got -1"}},
		}},
	}
}

// convertParameter moves the type of a parameter into its schema.
func convertParameter(p object) object {
	next, schema := object{}, object{}
	for key, value := range p {
		switch key {
		case "name", "in", "description":
			next[key] = value
		case "required":
			if value == true {
				next[key] = true
			}
		case "collectionFormat": // the default of 3.1 is the same, with one parameter for each value
		case "pattern":
			// The generator's pattern is left out, because it is only needed for names with
			// slashes, which Ares does not allow.
		default:
			schema[key] = convertSchema(value)
		}
	}
	next["schema"] = schema
	return next
}

// convertSchema renames references.
func convertSchema(node any) any {
	switch node := node.(type) {
	case object:
		next := object{}
		for key, value := range node {
			if ref, ok := value.(string); ok && key == "$ref" {
				value = "#/components/schemas/" + schemaName(strings.TrimPrefix(ref, "#/definitions/"))
			}
			next[key] = convertSchema(value)
		}
		return next
	case []any:
		next := make([]any, len(node))
		for i, child := range node {
			next[i] = convertSchema(child)
		}
		return next
	}
	return node
}

// schemaName returns the name of a message without its package.
func schemaName(name string) string {
	for _, prefix := range []string{"aresV1", "v1"} {
		if rest, ok := strings.CutPrefix(name, prefix); ok {
			return rest
		}
	}
	return name
}

// nullableLimits allows null for limits of tenants and queues, because a PATCH with null removes a limit.
func nullableLimits(schemas object) {
	for _, name := range []string{"Tenant", "Queue"} {
		properties, _ := schemas[name].(object)["properties"].(object)
		for field, property := range properties {
			if strings.HasPrefix(field, "max_") {
				property.(object)["type"] = []any{property.(object)["type"], "null"}
			}
		}
	}
}

// This function returns the OpenAPI paths of the streams. No generated method serves these paths.
func streams() object {
	path := func(id, tag, text, kind string, schema any, parameters ...any) object {
		responses := answers("get", id, object{}, false)
		responses["200"] = object{"description": text, "content": object{kind: object{"schema": schema}}}
		op := object{"operationId": id, "tags": []any{tag}, "summary": text, "responses": responses}
		if len(parameters) > 0 {
			op["parameters"] = parameters
		}
		if slices.Contains(anonymous, id) {
			op["security"] = []any{}
		}
		return object{"get": op}
	}
	parameter := func(name, kind, text string) any {
		return object{"name": name, "in": "query", "description": text, "schema": object{"type": kind}}
	}
	text := object{"type": "string"}
	return object{
		"/api/v1/events": path("WatchEvents", "ClusterService", "Server-sent events, or a WebSocket: every step of every job.", "text/event-stream", text,
			parameter("revision", "string", "Continue after this store revision. Default: from now on."), parameter("job_id", "string", "Only this job."),
			parameter("tenant_id", "string", "Only jobs of this tenant.")),
		"/api/v1/jobs/{job_id}/logs": path("StreamLogs", "JobService", "The output of a job.", "text/plain", text,
			object{"name": "job_id", "in": "path", "required": true, "schema": text}, parameter("rank", "integer", "The output of this rank. Default 0."),
			parameter("attempt", "integer", "Which attempt, from 1. Default the latest."), parameter("follow", "boolean", "Continue until the attempt ends."),
			parameter("tail_bytes", "integer", "Only the last bytes. Default all."),
			parameter("tail_lines", "integer", "Only the last lines of each rank. Default all."),
			parameter("since", "string", "Only lines that were completed at this time (RFC 3339) or later."),
			parameter("grep", "string", "Only lines that match this regular expression (RE2)."),
			parameter("timestamps", "boolean", "Write the time before each line."),
			parameter("all_ranks", "boolean", "The lines of all ranks in the order of time, each with its rank, such as r03|."),
			parameter("offset", "integer", "Continue at this byte of the output.")),
		"/api/v1/debug/store": path("DumpStore", "ClusterService", "The records of the store, one JSON object on each line.", "application/x-ndjson", text,
			parameter("prefix", "string", "Only keys that begin with this."), parameter("watch", "boolean", "Every change from now on instead.")),
		"/api/v1/openapi.json": path("GetOpenAPI", "ClusterService", "This document.", "application/json", object{"type": "object"}),
	}
}

func list(v any) []any {
	l, _ := v.([]any)
	return l
}

func joined(summary, description any) string {
	s, _ := summary.(string)
	d, _ := description.(string)
	return strings.TrimSpace(strings.Join([]string{s, d}, "\n\n"))
}

// firstSentence returns the first sentence of a comment, on one line.
func firstSentence(v any) string {
	s, _ := v.(string)
	s = strings.Join(strings.Fields(s), " ")
	if i := strings.Index(s, ". "); i >= 0 {
		s = s[:i]
	}
	return strings.TrimSuffix(s, ".")
}

// This function makes a summary from an operation's name: QueueService_GetQueue becomes "Get
// queue".
func words(id string) string {
	_, name, _ := strings.Cut(id, "_")
	name = strings.TrimRight(name, "0123456789")
	var b strings.Builder
	for i, r := range name {
		if i > 0 && r >= 'A' && r <= 'Z' {
			b.WriteByte(' ')
			r += 'a' - 'A'
		}
		b.WriteRune(r)
	}
	return b.String()
}
