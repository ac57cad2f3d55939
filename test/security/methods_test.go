package security

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/ares-scheduler/ares/apipb"
)

// A `verdict` is the kind of answer that tenant red's administrator must get
// about tenant blue's objects.
type verdict int

const (
	refused  verdict = iota // whatever is named
	absent                  // not found: the same as if it were not there
	filtered                // it may answer, with nothing of blue's
	open                    // it is for anybody
)

// The variable `foreign` holds one request for each API method. The request is
// about tenant blue's objects, and tenant red sends it.
var foreign = map[string]struct {
	request string
	verdict verdict
}{
	"JobService/SubmitJob":         {`{"job":{"request_id":"{id}","name":"x","tenant_id":"{tenant}","queue":"{queue}","command":["true"]}}`, absent},
	"JobService/SubmitJobs":        {`{"jobs":[{"request_id":"{id}","name":"x","tenant_id":"{tenant}","queue":"{queue}","command":["true"]}]}`, filtered},
	"JobService/GetJob":            {`{"job_id":"{job}"}`, absent},
	"JobService/ListJobs":          {`{"tenant_id":"{tenant}","all":true}`, filtered},
	"JobService/ResolveJob":        {`{"reference":"{job}"}`, absent},
	"JobService/CancelJob":         {`{"job_id":"{job}"}`, absent},
	"JobService/HoldJob":           {`{"job_id":"{job}"}`, absent},
	"JobService/ReleaseJob":        {`{"job_id":"{job}"}`, absent},
	"JobService/UpdateJob":         {`{"job_id":"{job}","priority":900,"labels":{"a":"b"}}`, absent},
	"JobService/RetryJob":          {`{"job_id":"{job}","request_id":"{id}"}`, absent},
	"JobService/ListJobEvents":     {`{"job_id":"{job}"}`, absent},
	"JobService/StreamLogs":        {`{"job_id":"{job}","grep":"secret","all_ranks":true,"tail_lines":5,"timestamps":true}`, absent},
	"JobService/ExplainJob":        {`{"job_id":"{job}"}`, absent},
	"JobService/PlanJob":           {`{"job":{"name":"x","tenant_id":"{tenant}","queue":"{queue}","command":["true"]}}`, absent},
	"JobService/PredictJob":        {`{"job_id":"{job}"}`, absent},
	"JobService/ListPreemptions":   {`{"tenant_id":"{tenant}","job_id":"{job}"}`, filtered},
	"JobService/PlanConsolidation": {`{}`, refused},

	"SessionService/RunSession": {`{"job_id":"{job}","start":{"exec":{"argv":["id"]}}}`, absent},

	"SessionRecordingService/ListSessionRecordings": {`{"tenant_id":"{tenant}"}`, absent},
	"SessionRecordingService/GetSessionRecording":   {`{"tenant_id":"{tenant}","recording_id":"20261119T140512-aaaaaaaaaa"}`, absent},

	"QueueService/CreateQueue": {`{"queue":{"tenant_id":"{tenant}","name":"{queue}"}}`, absent},
	"QueueService/GetQueue":    {`{"tenant_id":"{tenant}","name":"{queue}"}`, absent},
	"QueueService/ListQueues":  {`{"tenant_id":"{tenant}"}`, absent},
	"QueueService/UpdateQueue": {`{"tenant_id":"{tenant}","name":"{queue}","queue":{"weight":9}}`, absent},
	"QueueService/DeleteQueue": {`{"tenant_id":"{tenant}","name":"{queue}"}`, absent},
	"QueueService/GetFairness": {`{"tenant_id":"{tenant}"}`, absent},

	"TopologyService/GetTopology":   {`{}`, filtered},
	"TopologyService/ApplyTopology": {`{"topology":{}}`, refused},

	"ReservationService/CreateReservation": {`{"reservation":{"name":"{reservation}","tenant_id":"{tenant}"}}`, refused},
	"ReservationService/GetReservation":    {`{"name":"{reservation}"}`, absent},
	"ReservationService/ListReservations":  {`{}`, filtered},
	"ReservationService/DeleteReservation": {`{"name":"{reservation}"}`, refused},

	"PolicyService/ApplyPolicy":       {`{"policy":{"name":"{policy}","tenant_id":"{tenant}","on":"submission","rule":"true"}}`, absent},
	"PolicyService/GetPolicy":         {`{"name":"{policy}","tenant_id":"{tenant}"}`, absent},
	"PolicyService/ListPolicies":      {`{"tenant_id":"{tenant}"}`, filtered},
	"PolicyService/DeletePolicy":      {`{"name":"{policy}","tenant_id":"{tenant}"}`, absent},
	"PolicyService/ListAlertChannels": {`{}`, refused},
	"PolicyService/TestAlertChannel":  {`{"name":"ops"}`, refused},

	"SecretService/PutSecret":       {`{"name":"violet","tenant_id":"{tenant}","data":{"value":"eA=="}}`, absent},
	"SecretService/ListSecrets":     {`{"tenant_id":"{tenant}"}`, absent},
	"SecretService/DeleteSecret":    {`{"name":"violet","tenant_id":"{tenant}"}`, absent},
	"SecretService/RotateSecretKey": {`{}`, refused},

	"HistoryService/GetUsage":    {`{"tenant_id":"{tenant}"}`, absent},
	"HistoryService/ListPrices":  {`{}`, filtered},
	"HistoryService/SetPrice":    {`{"price":{"gpu_model":"H100","price_per_gpu_hour":1}}`, refused},
	"HistoryService/DeletePrice": {`{"gpu_model":"H100"}`, refused},

	"TenantService/CreateTenant": {`{"tenant":{"id":"{tenant}","name":"x"}}`, refused},
	"TenantService/GetTenant":    {`{"tenant_id":"{tenant}"}`, absent},
	"TenantService/ListTenants":  {`{}`, filtered},
	"TenantService/UpdateTenant": {`{"tenant_id":"{tenant}","tenant":{"max_gpus":1}}`, refused},
	"TenantService/DeleteTenant": {`{"tenant_id":"{tenant}"}`, refused},

	"ClusterService/GetHealth":        {`{}`, open},
	"ClusterService/GetReady":         {`{}`, open},
	"ClusterService/ListNodes":        {`{}`, filtered},
	"ClusterService/GetNode":          {`{"node_id":"other"}`, filtered},
	"ClusterService/CordonNode":       {`{"node_id":"other"}`, refused},
	"ClusterService/UncordonNode":     {`{"node_id":"other"}`, refused},
	"ClusterService/DrainNode":        {`{"node_id":"other"}`, refused},
	"ClusterService/RemoveNode":       {`{"node_id":"other"}`, refused},
	"ClusterService/GetClusterStatus": {`{}`, filtered},
	"ClusterService/GetServerStatus":  {`{}`, refused},
	"ClusterService/WatchEvents":      {`{"tenant_id":"{tenant}","job_id":"{job}"}`, filtered},
	"ClusterService/DumpStore":        {`{}`, refused},
	"ClusterService/BackupStore":      {`{}`, refused},
	"ClusterService/RecordState":      {`{}`, refused},

	"IdentityService/WhoAmI":        {`{}`, filtered},
	"IdentityService/CanI":          {`{"verb":"job.read","tenant_id":"{tenant}"}`, filtered},
	"IdentityService/CreateToken":   {`{"name":"{token}","tenant_id":"{tenant}","bindings":[{"role":"viewer","tenant_id":"{tenant}"}]}`, absent},
	"IdentityService/ListTokens":    {`{"tenant_id":"{tenant}"}`, filtered},
	"IdentityService/RevokeToken":   {`{"name":"{token}","tenant_id":"{tenant}"}`, absent},
	"IdentityService/CreateBinding": {`{"binding":{"subject":"oidc:mallory","role":"viewer","tenant_id":"{tenant}"}}`, absent},
	"IdentityService/ListBindings":  {`{"tenant_id":"{tenant}"}`, filtered},
	"IdentityService/AcceptBinding": {`{"subject":"oidc:cyan","role":"viewer","tenant_id":"{tenant}"}`, absent},
	"IdentityService/DeleteBinding": {`{"subject":"oidc:cyan","role":"viewer","tenant_id":"{tenant}"}`, absent},

	"TrustService/CreateJoinToken":  {`{"node_id":"evil"}`, refused},
	"TrustService/ListJoinTokens":   {`{}`, refused},
	"TrustService/RevokeJoinToken":  {`{"id":"abc"}`, refused},
	"TrustService/RevokeNode":       {`{"node_id":"other"}`, refused},
	"TrustService/LabelNode":        {`{"node_id":"other","labels":{"ares.io/pool":"prod"}}`, refused},
	"TrustService/ListRevocations":  {`{}`, refused},
	"TrustService/GetAuthority":     {`{}`, filtered},
	"TrustService/JoinNode":         {`{"token":"ares-join.x","node_id":"evil"}`, refused},
	"TrustService/RenewCertificate": {`{}`, refused},

	"AuditService/ListAuditEntries": {`{"tenant_id":"{tenant}"}`, absent},
	"AuditService/GetAuditHead":     {`{}`, refused},
	"AuditService/VerifyAudit":      {`{}`, refused},

	"AgentService/OpenSession":      {`{"node":{"node_id":"other","address":"127.0.0.1","version":"x"},"instance":"x"}`, refused},
	"AgentService/RenewSession":     {`{"ref":{"node_id":"other","session":"1"}}`, refused},
	"AgentService/UpdateNode":       {`{"ref":{"node_id":"other","session":"1"},"node":{"node_id":"other"}}`, refused},
	"AgentService/CloseSession":     {`{"ref":{"node_id":"other","session":"1"}}`, refused},
	"AgentService/WatchSeats":       {`{"ref":{"node_id":"other","session":"1"}}`, refused},
	"AgentService/ClaimSeat":        {`{"ref":{"node_id":"other","session":"1"},"seat":{"job_id":"{job}","fence":"1"}}`, refused},
	"AgentService/FinishSeat":       {`{"ref":{"node_id":"other","session":"1"},"seat":{"job_id":"{job}","fence":"1"},"result":{"outcome":"succeeded"}}`, refused},
	"AgentService/DeclineSeat":      {`{"ref":{"node_id":"other","session":"1"},"seat":{"job_id":"{job}","fence":"1"}}`, refused},
	"AgentService/ReleaseSeat":      {`{"ref":{"node_id":"other","session":"1"},"seat":{"job_id":"{job}","fence":"1"}}`, refused},
	"AgentService/ReportClean":      {`{"ref":{"node_id":"other","session":"1"}}`, refused},
	"AgentService/ReportProgress":   {`{"ref":{"node_id":"other","session":"1"},"seat":{"job_id":"{job}","fence":"1"}}`, refused},
	"AgentService/ReportCheckpoint": {`{"ref":{"node_id":"other","session":"1"},"seat":{"job_id":"{job}","fence":"1"}}`, refused},
	"ObjectService/CommitSnapshot":  {`{"tenant_id":"{tenant}","snapshot":{}}`, absent},
	"ObjectService/PutChunks":       {`{"tenant_id":"{tenant}","chunks":["eA=="]}`, absent},
	"AgentService/FetchCode":        {`{"ref":{"node_id":"other","session":"1"},"seat":{"job_id":"{job}","fence":"1"}}`, refused},
	"AgentService/FetchSecrets":     {`{"ref":{"node_id":"other","session":"1"},"seat":{"job_id":"{job}","fence":"1"}}`, refused},
	"AgentService/JoinSession":      {`{"ref":{"node_id":"other","session":"1"},"seat":{"job_id":"{job}","fence":"1"},"ticket":"eA=="}`, refused},
	"AgentService/RunRankSession":   {`{"ref":{"node_id":"other","session":"1"},"seat":{"job_id":"{job}","fence":"1"},"exec":{"argv":["true"]}}`, refused},
	"AgentService/ListRanks":        {`{"ref":{"node_id":"other","session":"1"},"seat":{"job_id":"{job}","fence":"1"}}`, refused},
	"AgentService/StoreLogs":        {`{"ref":{"node_id":"other","session":"1"},"logs":[{"seat":{"job_id":"{job}","fence":"1"}}]}`, refused},
	"AgentService/ServeFiles":       {`{"ref":{"node_id":"other","session":"1"}}`, refused},

	"ClustersService/RegisterCluster":         {`{"name":"evil"}`, refused},
	"ClustersService/ListClusters":            {`{}`, filtered},
	"ClustersService/GetCluster":              {`{"name":"east"}`, filtered},
	"ClustersService/CordonCluster":           {`{"name":"east"}`, refused},
	"ClustersService/UncordonCluster":         {`{"name":"east"}`, refused},
	"ClustersService/DrainCluster":            {`{"name":"east"}`, refused},
	"ClustersService/DeclareClusterDead":      {`{"name":"east"}`, refused},
	"ClustersService/LeaveCluster":            {`{"name":"east"}`, refused},
	"ClustersService/JoinCluster":             {`{"token":"ares-cluster.x"}`, refused},
	"ClustersService/RenewClusterCertificate": {`{}`, refused},
	"ClustersService/EndMembership":           {`{}`, refused},
	"ClustersService/GetMembership":           {`{}`, refused},
	"ClustersService/JoinHub":                 {`{"hub":["127.0.0.1:1"],"token":"x"}`, refused},
	"ClustersService/LeaveHub":                {`{}`, refused},
	"FederationService/Connect":               {`{"hello":{"cluster":"east","protocol":1}}`, refused},
	"FederationService/ServeReads":            {`{"cluster":"east","cookie":"x"}`, refused},
	"FederationService/AnswerRead":            {`{"cluster":"east","id":"1"}`, refused},
}

// A `method` is an API method, together with the request that the test sends to
// it.
type method struct {
	protoreflect.MethodDescriptor
	name, request string
	verdict       verdict
}

// The method `joins` reports whether a call authenticates with a join token in the request, so that anybody may make it.
func (m *method) joins() bool {
	return m.name == "TrustService/JoinNode" || m.name == "ClustersService/JoinCluster"
}

func (m *method) agents() bool { return strings.HasPrefix(m.name, "AgentService/") }

// This function lists all API methods. It fails the test if the variable
// `foreign` has no request for a method.
func methods(t *testing.T) []*method {
	t.Helper()
	var all []*method
	own := (&apipb.GetJobRequest{}).ProtoReflect().Descriptor().ParentFile().Package()
	protoregistry.GlobalFiles.RangeFilesByPackage(own, func(f protoreflect.FileDescriptor) bool {
		for i := range f.Services().Len() {
			s := f.Services().Get(i)
			for k := range s.Methods().Len() {
				m := s.Methods().Get(k)
				name := string(s.Name()) + "/" + string(m.Name())
				row, ok := foreign[name]
				if !ok {
					t.Errorf("%s has no row in foreign: say what a hostile tenant would ask of it", name)
				}
				all = append(all, &method{m, name, row.request, row.verdict})
			}
		}
		return true
	})
	slices.SortFunc(all, func(a, b *method) int { return strings.Compare(a.name, b.name) })
	return all
}

// This method makes a gRPC call and returns everything that the server
// answered.
func (m *method) call(ctx context.Context, conn *grpc.ClientConn, id, request string, authorization ...string) (result, error) {
	in, err := protoregistry.GlobalTypes.FindMessageByName(m.Input().FullName())
	if err != nil {
		return result{}, err
	}
	out, err := protoregistry.GlobalTypes.FindMessageByName(m.Output().FullName())
	if err != nil {
		return result{}, err
	}
	req := in.New().Interface()
	if err = protojson.Unmarshal([]byte(request), req); err != nil {
		return result{}, fmt.Errorf("%s: %w", m.name, err)
	}
	pairs := []string{"x-request-id", id}
	for _, a := range authorization {
		pairs = append(pairs, "authorization", a)
	}
	ctx, cancel := context.WithTimeout(metadata.AppendToOutgoingContext(ctx, pairs...), 20*time.Second)
	defer cancel()
	full := "/" + string(m.Parent().FullName()) + "/" + string(m.Name())
	if !m.IsStreamingServer() {
		resp := out.New().Interface()
		err = conn.Invoke(ctx, full, req, resp)
		return said(err, resp), nil
	}
	// The server may accept a stream, but it must not send anything about
	// tenant blue for two seconds.
	ctx, stop := context.WithTimeout(ctx, 2*time.Second)
	defer stop()
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: m.IsStreamingClient()}, full)
	if err != nil {
		return said(err), nil
	}
	return converse(stream, req, out, !m.IsStreamingClient()), nil
}

// This function sends one request on a stream and reads all answers. If the server refuses the stream before the request
// is sent, SendMsg returns io.EOF, and only RecvMsg returns the refusal.
func converse(stream grpc.ClientStream, req proto.Message, out protoreflect.MessageType, last bool) result {
	err := stream.SendMsg(req)
	if err == nil && last {
		err = stream.CloseSend()
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	var all []proto.Message
	for err == nil {
		resp := out.New().Interface()
		if err = stream.RecvMsg(resp); err == nil {
			all = append(all, resp)
		}
	}
	if errors.Is(err, io.EOF) || status.Code(err) == codes.DeadlineExceeded {
		err = nil
	}
	return said(err, all...)
}

// refusedEarly is a stream that the server refused before the request was sent.
type refusedEarly struct{ grpc.ClientStream }

func (refusedEarly) SendMsg(any) error { return io.EOF }
func (refusedEarly) CloseSend() error  { return nil }
func (refusedEarly) RecvMsg(any) error { return status.Error(codes.PermissionDenied, "no") }

// TestAnEarlyRefusalIsNoAnswer checks that the tests of hostile calls see the refusal of such a stream.
func TestAnEarlyRefusalIsNoAnswer(t *testing.T) {
	t.Parallel()
	got := converse(refusedEarly{}, &apipb.WatchEventsRequest{}, (&apipb.WatchEventsResponse{}).ProtoReflect().Type(), true)
	if !got.refused || got.code != "PermissionDenied" {
		t.Errorf("got %+v, want a refusal", got)
	}
}

// This function converts a gRPC answer to a result.
func said(err error, answers ...proto.Message) result {
	s := status.Convert(err)
	out := result{code: s.Code().String(), refused: slices.Contains(refusals, s.Code()), broken: slices.Contains(failures, s.Code())}
	if err != nil {
		out.text = protojson.Format(s.Proto())
		return out
	}
	for _, a := range answers {
		out.text += protojson.Format(a)
	}
	return out
}

var (
	refusals = []codes.Code{codes.NotFound, codes.PermissionDenied, codes.Unauthenticated, codes.InvalidArgument, codes.FailedPrecondition, codes.ResourceExhausted, codes.OutOfRange, codes.AlreadyExists, codes.Unimplemented, codes.Aborted}
	failures = []codes.Code{codes.Internal, codes.Unknown, codes.Unavailable, codes.DataLoss, codes.DeadlineExceeded, codes.Canceled}
)

// A `route` is a REST route of a method.
type route struct {
	*method
	verb, template, body string
}

// This method returns the REST routes of an API method.
func (m *method) routes() []route {
	rule, _ := proto.GetExtension(m.Options(), annotations.E_Http).(*annotations.HttpRule)
	if rule == nil {
		return nil
	}
	var out []route
	for _, r := range append([]*annotations.HttpRule{rule}, rule.GetAdditionalBindings()...) {
		one := route{method: m, body: r.GetBody()}
		switch {
		case r.GetGet() != "":
			one.verb, one.template = http.MethodGet, r.GetGet()
		case r.GetPost() != "":
			one.verb, one.template = http.MethodPost, r.GetPost()
		case r.GetPut() != "":
			one.verb, one.template = http.MethodPut, r.GetPut()
		case r.GetPatch() != "":
			one.verb, one.template = http.MethodPatch, r.GetPatch()
		default:
			one.verb, one.template = http.MethodDelete, r.GetDelete()
		}
		out = append(out, one)
	}
	return out
}

var hole = regexp.MustCompile(`\{[a-z_]+\}`)

// This method returns the URL path and the body of a REST request.
func (r *route) with(request string) (path, body string, err error) {
	fields := map[string]any{}
	if err = json.Unmarshal([]byte(request), &fields); err != nil {
		return "", "", err
	}
	path = hole.ReplaceAllStringFunc(r.template, func(name string) string {
		name = strings.Trim(name, "{}")
		value := fmt.Sprint(fields[name])
		delete(fields, name)
		return url.PathEscape(value)
	})
	var data []byte
	switch r.body {
	case "":
		query := url.Values{}
		for name, v := range fields {
			query.Set(name, fmt.Sprint(v))
		}
		if len(query) > 0 {
			path += "?" + query.Encode()
		}
		return path, "", nil
	case "*":
		data, err = json.Marshal(fields)
	default:
		data, err = json.Marshal(fields[r.body])
	}
	return path, string(data), err
}
