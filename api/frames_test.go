package api

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	_ "google.golang.org/grpc/encoding/gzip" // so that the server could decompress

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
)

// TestFloodsOfFrames sends floods of HTTP/2 frames without a token. The server must not keep them in memory, must not wait for
// the client, and must answer others.
func TestFloodsOfFrames(t *testing.T) {
	const many = 5000
	floods := map[string]func(c *rawGRPC) error{
		"rapid reset": func(c *rawGRPC) error {
			for range many {
				id := c.open(apipb.ClusterService_GetHealth_FullMethodName, "")
				if err := c.frames.WriteRSTStream(id, http2.ErrCodeCancel); err != nil {
					return err
				}
			}
			return nil
		},
		"streams without a message": func(c *rawGRPC) error {
			for range many {
				c.open(apipb.ClusterService_GetHealth_FullMethodName, "")
			}
			return nil
		},
		"streams without a token": func(c *rawGRPC) error {
			for range many {
				c.open(apipb.JobService_SubmitJob_FullMethodName, "")
			}
			return nil
		},
		"pings": func(c *rawGRPC) error {
			for range many {
				if err := c.frames.WritePing(false, [8]byte{1}); err != nil {
					return err
				}
			}
			return nil
		},
		"settings": func(c *rawGRPC) error {
			for range many {
				if err := c.frames.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 20}); err != nil {
					return err
				}
			}
			return nil
		},
		"empty data": func(c *rawGRPC) error {
			id := c.open(apipb.JobService_SubmitJob_FullMethodName, "")
			for range many {
				if err := c.frames.WriteData(id, false, nil); err != nil {
					return err
				}
			}
			return nil
		},
		"continuations": func(c *rawGRPC) error {
			if err := c.frames.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: c.fields("x", "y"), EndHeaders: false}); err != nil {
				return err
			}
			for range many {
				if err := c.frames.WriteContinuation(1, false, c.fields("x", strings.Repeat("y", 1000))); err != nil {
					return err
				}
			}
			return nil
		},
		"huge headers": func(c *rawGRPC) error {
			var all []byte
			for range 5000 {
				all = append(all, c.fields("x", strings.Repeat("y", 1000))...)
			}
			return c.frames.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: all[:16<<10], EndHeaders: true})
		},
		"no HTTP/2 at all": func(c *rawGRPC) error {
			_, err := io.WriteString(c.conn, "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
			return err
		},
	}
	h := newHouse(t)
	h.pipeline.SlowAfter, h.pipeline.ReceiveWait = 10*time.Millisecond, 100*time.Millisecond
	at := serveRaw(h)
	var before runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for name, flood := range floods {
		for _, reads := range []bool{true, false} {
			c := dialRaw(t, at)
			c.quiet = true
			_ = c.conn.SetWriteDeadline(time.Now().Add(300 * time.Millisecond)) // a server that reads no more stops the flood
			if reads {
				go func() { _, _ = io.Copy(io.Discard, c.conn) }()
			}
			_ = flood(c) // the server may close the connection
			good := dialRaw(t, at)
			id := good.open(apipb.ClusterService_GetHealth_FullMethodName, "")
			good.announce(id, 0, true)
			if code, text := good.status(id, 20*time.Second); code != "0" {
				t.Errorf("during %s, a health check is answered %q %q", name, code, text)
			}
		}
	}
	var after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&after)
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 64<<20 {
		t.Errorf("the floods hold %d MB", grown>>20)
	}
}

// TestABombIsRefused sends a message that is small and has 64 MiB when it is decompressed.
func TestABombIsRefused(t *testing.T) {
	h := newHouse(t)
	c := dialRaw(t, serveRaw(h))
	var bomb bytes.Buffer
	z := gzip.NewWriter(&bomb)
	_, err := z.Write(make([]byte, 64<<20))
	must(t, err)
	must(t, z.Close())
	id := c.open(apipb.JobService_SubmitJobs_FullMethodName, adminToken, "grpc-encoding", "gzip")
	must(t, c.frames.WriteData(id, false, binary.BigEndian.AppendUint32([]byte{1}, uint32(bomb.Len()))))
	for data := bomb.Bytes(); len(data) > 0; {
		n := min(len(data), 16<<10)
		must(t, c.frames.WriteData(id, n == len(data), data[:n]))
		data = data[n:]
	}
	if code, text := c.status(id, 20*time.Second); code != "3" || !strings.Contains(text, "grpc-encoding") {
		t.Errorf("it is answered %q %q", code, text)
	}
	if a := h.do("POST", "/api/v1/jobs", bomb.String(), func(r *http.Request) { r.Header.Set("Content-Encoding", "gzip") }); a.code != 400 {
		t.Errorf("over REST it is answered %d %s", a.code, a.body)
	}
}

// TestOddBodies sends bodies that JSON decoders read differently.
func TestOddBodies(t *testing.T) {
	h := newHouse(t)
	for name, body := range map[string]string{
		"deep objects":        `{"job":` + strings.Repeat(`{"a":`, 50_000) + "1" + strings.Repeat("}", 50_000) + "}",
		"deep lists":          `{"command":` + strings.Repeat("[", 200_000) + strings.Repeat("]", 200_000) + "}",
		"a deep environment":  `{"name":"x","command":["true"],"environment":` + strings.Repeat(`{"a":`, 20_000) + strings.Repeat("}", 20_000) + "}",
		"a huge number":       `{"name":"x","command":["true"],"gpus":1e400}`,
		"a long number":       `{"name":"x","command":["true"],"gpus":` + strings.Repeat("9", 100_000) + "}",
		"a small fraction":    `{"name":"x","command":["true"],"gpus":1e-100000000}`,
		"duplicate keys":      `{"name":"x","name":"y","command":["true"]}`,
		"two spellings":       `{"request_id":"a-123456789","requestId":"b-123456789","name":"x","command":["true"]}`,
		"invalid UTF-8":       "{\"name\":\"\xff\",\"command\":[\"true\"]}",
		"half of a surrogate": `{"name":"\ud800","command":["true"]}`,
		"two documents":       `{"name":"x","command":["true"]}{"name":"y","command":["true"]}`,
		"a byte order mark":   "\ufeff" + `{"name":"x","command":["true"]}`,
		"comments":            `{"name":"x",/* */"command":["true"]}`,
		"not a number":        `{"name":"x","command":["true"],"gpus":NaN}`,
	} {
		a := h.do("POST", "/api/v1/jobs", body)
		if a.code != 400 {
			t.Errorf("%s: answered %d %.200s", name, a.code, a.body)
		}
		if len(a.body) > 16<<10 {
			t.Errorf("%s: the answer has %d bytes", name, len(a.body))
		}
	}
	for name, query := range map[string]string{
		"many parameters":  strings.Repeat("a=b&", 10_000),
		"one many times":   strings.Repeat("page_size=1&", 4_000),
		"a long parameter": "tenant=" + strings.Repeat("x", 60_000),
	} {
		if a := h.do("GET", "/api/v1/jobs?"+query, nil); a.code/100 != 4 || len(a.body) > 64<<10 {
			t.Errorf("%s: answered %d with %d bytes", name, a.code, len(a.body))
		}
	}
	if n := h.stored("jobs"); n != 0 {
		t.Errorf("%d jobs are stored", n)
	}
}

// TestOldAndOddHTTP sends requests in the spelling of other HTTP versions.
func TestOldAndOddHTTP(t *testing.T) {
	h := newHouse(t)
	auth := "Authorization: Bearer " + adminToken + "\r\n"
	body := `{"name":"x","command":["true"]}`
	for name, one := range map[string]struct {
		text string
		want int
	}{
		"HTTP/1.0 without a Host":     {"GET /api/v1/jobs HTTP/1.0\r\n" + auth + "\r\n", 421},
		"HTTP/1.0 with a Host":        {"GET /api/v1/jobs HTTP/1.0\r\nHost: localhost\r\n" + auth + "\r\n", 200},
		"a foreign Host":              {"GET /api/v1/jobs HTTP/1.1\r\nHost: rebound.example\r\n" + auth + "\r\n", 421},
		"a Host with a user":          {"GET /api/v1/jobs HTTP/1.1\r\nHost: localhost@rebound.example\r\n" + auth + "\r\n", 400},
		"an absolute foreign address": {"GET http://rebound.example/api/v1/jobs HTTP/1.1\r\nHost: localhost\r\n" + auth + "\r\n", 421},
		"a token in a trailer":        {"POST /api/v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\nTrailer: Authorization\r\n\r\n1f\r\n" + body + "\r\n0\r\n" + auth + "\r\n", 401},
		"a broken chunk":              {"POST /api/v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n" + auth + "Transfer-Encoding: chunked\r\n\r\nzz\r\n" + body + "\r\n0\r\n\r\n", 400},
		"a foreign Origin":            {"GET /api/v1/jobs HTTP/1.1\r\nHost: localhost\r\nOrigin: http://localhost:1\r\n" + auth + "\r\n", 403},
		"a preflight":                 {"OPTIONS /api/v1/jobs HTTP/1.1\r\nHost: localhost\r\nOrigin: https://evil.example\r\nAccess-Control-Request-Method: POST\r\n\r\n", 403},
	} {
		c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", h.server.Listener.Addr().String())
		must(t, err)
		_, err = io.WriteString(c, one.text)
		must(t, err)
		if code, text := answerOf(t, c); code != one.want || strings.Contains(strings.ToLower(text), "access-control-allow") {
			t.Errorf("%s: answered %d %.200s", name, code, text)
		}
		_ = c.Close()
	}
	if _, err := h.store.Job(t.Context(), ares.NewJobID("default", "x")); ares.CodeOf(err) != ares.NotFound {
		t.Error(err)
	}
}

// The method `fields` encodes one header field.
func (c *rawGRPC) fields(name, value string) []byte {
	c.head.Reset()
	must(c.t, c.enc.WriteField(hpack.HeaderField{Name: name, Value: value, Sensitive: true}))
	return bytes.Clone(c.head.Bytes())
}
