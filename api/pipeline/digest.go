package pipeline

import (
	"sync"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/audit"
)

// MessageDigest returns the digest of a message in its canonical form. Fields with the option debug_redact are left out: a
// reader of the audit log could guess a short password, and compare the digest of each guess.
func MessageDigest(m proto.Message) string {
	if m == nil || !m.ProtoReflect().IsValid() {
		return ""
	}
	if hasRedacted(m.ProtoReflect().Descriptor()) {
		m = proto.Clone(m)
		clearRedacted(m.ProtoReflect())
	}
	data, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		return "" // it was never valid, so the call was rejected
	}
	return audit.Digest(data)
}

// submissionDigests returns the digests of a submission and of its job, as MessageDigest does, but encodes the job only once.
func submissionDigests(req *apipb.SubmitJobRequest) (request, job string) {
	if req.GetJob() == nil || len(req.ProtoReflect().GetUnknown()) > 0 || hasRedacted(req.ProtoReflect().Descriptor()) {
		return MessageDigest(req), MessageDigest(req.GetJob())
	}
	const head = 1 + 10 // the most bytes of the tag and the length that precede the job
	data, err := proto.MarshalOptions{Deterministic: true}.MarshalAppend(make([]byte, head, 512), req.GetJob())
	if err != nil {
		return "", ""
	}
	size := uint64(len(data) - head)
	start := head - 1 - protowire.SizeVarint(size)
	protowire.AppendVarint(protowire.AppendTag(data[:start], submittedJob, protowire.BytesType), size)
	return audit.Digest(data[start:]), audit.Digest(data[head:])
}

// submittedJob is the number of the field `job` of a submission.
var submittedJob = (&apipb.SubmitJobRequest{}).ProtoReflect().Descriptor().Fields().ByName("job").Number()

// redactedTypes caches hasRedacted by the name of the type. Most messages have no such field, and need no copy.
var redactedTypes sync.Map

func hasRedacted(d protoreflect.MessageDescriptor) bool {
	if known, ok := redactedTypes.Load(d.FullName()); ok {
		return known.(bool)
	}
	found := findRedacted(d, map[protoreflect.FullName]bool{})
	redactedTypes.Store(d.FullName(), found)
	return found
}

func findRedacted(d protoreflect.MessageDescriptor, visited map[protoreflect.FullName]bool) bool {
	if visited[d.FullName()] {
		return false
	}
	visited[d.FullName()] = true
	for i := range d.Fields().Len() {
		f := d.Fields().Get(i)
		if isRedacted(f) || f.Message() != nil && findRedacted(f.Message(), visited) {
			return true
		}
	}
	return false
}

func isRedacted(f protoreflect.FieldDescriptor) bool {
	o, ok := f.Options().(*descriptorpb.FieldOptions)
	return ok && o.GetDebugRedact()
}

func clearRedacted(m protoreflect.Message) {
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case isRedacted(f):
			m.Clear(f)
		case f.IsMap() && f.MapValue().Message() != nil:
			v.Map().Range(func(_ protoreflect.MapKey, v protoreflect.Value) bool { clearRedacted(v.Message()); return true })
		case f.IsList() && f.Message() != nil:
			for i := range v.List().Len() {
				clearRedacted(v.List().Get(i).Message())
			}
		case f.Message() != nil && !f.IsMap():
			clearRedacted(v.Message())
		}
		return true
	})
}
