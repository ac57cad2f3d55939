package security

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"
)

// This method returns attempts that spell the path of an object in unusual ways.
func (s *scene) paths() []attempt {
	var out []attempt
	for _, path := range []string{
		"/api/v1/tenants/red/queues/..%2f..%2fblue%2fqueues%2fazure", "/api/v1/tenants/red%2f..%2fblue/queues/azure", "/api/v1/tenants/red/../blue", "/api/v1/tenants/red/../blue/queues/azure",
		"/api/v1/tenants//blue", "//api/v1/tenants/blue", "/api//v1/tenants/blue", "/api/v1/./tenants/blue", "/api/v1/tenants/./blue", "/api/v1/tenants/blue/", "/api/v1/tenants/blue/.", "/api/v1/tenants/red/..;/blue",
		"/api/v1/tenants/%62lue", "/api/v1/tenants/%2562lue", "/api/v1/tenants/blue%00", "/api/v1/tenants/blue%00.json", "/api/v1/tenants/blue%0a", "/api/v1/tenants/blue%20", "/api/v1/tenants/blue;a=b", "/api/v1/tenants/blue%3f", "/api/v1/tenants/blue%23",
		"/api/v1/tenants/BLUE", "/API/V1/tenants/blue", "/api/v1/tenants/ｂlue", "/api/v1/tenants/*", "/api/v1/tenants/**", "/api/v1/tenants/{tenant_id}", "/api/v1/tenants/-", "/api/v1/tenants/.", "/api/v1/tenants/..", "/api/v1/tenants/%2e%2e", "/api/v1/tenants/%2e%2e%2fblue", "/api/v1/tenants/..%5cblue", "/api/v1/tenants/..%c0%afblue",
		"/api/v1/jobs/" + s.blue.job + "%2fevents", "/api/v1/jobs/x%2f..%2f" + s.blue.job, "/api/v1/jobs/" + s.blue.job + "/../" + s.blue.job, "/api/v1/jobs/" + strings.ToUpper(s.blue.job), "/api/v1/jobs/" + s.blue.job + "%00", "/api/v1/jobs/" + s.blue.job + ":retry", "/api/v1/jobs/../tenants/blue",
		"/api/v1/tenants/" + strings.Repeat("a", 8000), "/" + strings.Repeat("../", 2000) + "etc/passwd", "/api/v1/" + strings.Repeat("jobs/", 1500), "/..%2f..%2f..%2fetc%2fpasswd", "/server/admin.token", "/debug/pprof/", "/metrics", "/ares.v1.JobService/GetJob", "/api/v2/jobs", "/api/v1/nodes/..%2ftenants%2fblue", "/api/v1/policies/..%2f..%2ftenants%2fblue",
	} {
		out = append(out, s.rest("path "+path[:min(len(path), 100)], s.red, http.MethodGet, path, "", nil))
	}
	for _, path := range []string{"/api/v1/tenants/red/../blue", "/api/v1/tenants/red%2f..%2fblue", "/api/v1/tenants/red/queues/..%2f..%2fblue%2fqueues%2fazure", "/api/v1//tenants/blue", "/api/v1/tenants/red/tokens/..%2f..%2fblue%2ftokens%2fnavy", "/api/v1/tokens/blue%2fnavy", "/api/v1/jobs/" + s.blue.job + "%00"} {
		out = append(out, s.rest("delete "+path, s.red, http.MethodDelete, path, "", nil))
	}
	for _, method := range []string{"PUT", "PATCH", "POST", "OPTIONS", "TRACE", "CONNECT", "PROPFIND", "GET\t"} {
		if method == "CONNECT" || method == "GET\t" {
			continue // see raw: a client does not send these
		}
		out = append(out, s.rest("method "+method+" of a job", s.red, method, "/api/v1/jobs/"+s.blue.job, "", nil))
	}
	return out
}

// This method returns attempts that claim another identity in a request header.
func (s *scene) headers() []attempt {
	var out []attempt
	blue, red := "Bearer "+s.blueToken, "Bearer "+s.red
	about := func(name, token string, header http.Header) {
		a := s.rest("header "+name, token, http.MethodGet, "/api/v1/jobs/{job}", "", header)
		out = append(out, a)
	}
	// Send tenant red's Authorization header, and claim to be tenant blue in
	// another way.
	for name, header := range map[string]http.Header{
		"Grpc-Metadata-Authorization": {"Grpc-Metadata-Authorization": {blue}}, "grpc-metadata-authorization": {"grpc-metadata-authorization": {blue}},
		"Grpcgateway-Authorization": {"Grpcgateway-Authorization": {blue}}, "Proxy-Authorization": {"Proxy-Authorization": {blue}}, "X-Authorization": {"X-Authorization": {blue}},
		"X-Forwarded-User": {"X-Forwarded-User": {"token:blue/navy"}}, "X-Forwarded-For": {"X-Forwarded-For": {"127.0.0.1"}}, "X-Forwarded-Host": {"X-Forwarded-Host": {"localhost"}}, "Forwarded": {"Forwarded": {"for=127.0.0.1;host=localhost"}},
		"X-Original-URL": {"X-Original-URL": {"/api/v1/health"}}, "X-Rewrite-URL": {"X-Rewrite-URL": {"/api/v1/health"}}, "X-Tenant-Id": {"X-Tenant-Id": {"blue"}}, "Tenant-Id": {"Tenant-Id": {"blue"}}, "Grpc-Metadata-Tenant": {"Grpc-Metadata-Tenant": {"blue"}},
		"X-Ares-User": {"X-Ares-User": {"admin"}}, "X-Remote-User": {"X-Remote-User": {"admin"}}, "X-Client-Cert": {"X-Client-Cert": {"node:other"}}, "X-SSL-Client-Verify": {"X-SSL-Client-Verify": {"SUCCESS"}}, "Cookie": {"Cookie": {"token=" + s.blueToken}},
		"Sec-WebSocket-Protocol": {"Sec-WebSocket-Protocol": {"ares.v1, ares.bearer." + s.blueToken}},
	} {
		about(name+" beside red's token", s.red, header)
		about(name+" without a token", "", header)
	}
	for name, values := range map[string][]string{
		"two of them": {red, blue}, "two of blue's": {blue, blue}, "one with a comma": {red + ", " + blue}, "no scheme": {s.blueToken}, "another scheme": {"Basic " + s.blueToken}, "a blank token": {"Bearer "}, "a token and more": {blue + " x"},
		"a token in quotes": {`Bearer "` + s.blueToken + `"`}, "a prefix of the token": {blue[:len(blue)-1]}, "more than the token": {blue + "x"}, "the token in capitals": {strings.ToUpper(blue)}, "very long": {"Bearer " + strings.Repeat("x", 40_000)}, "an empty one": {""},
	} {
		a := s.rest("Authorization with "+name, "", http.MethodGet, "/api/v1/jobs/{job}", "", http.Header{"Authorization": values})
		a.codes = []string{"401"}
		out = append(out, a)
	}
	for _, where := range []string{"access_token", "token", "authorization"} {
		a := s.rest("a token in the query as "+where, "", http.MethodGet, "/api/v1/jobs/{job}?"+where+"="+s.blueToken, "", nil)
		a.codes = []string{"401"}
		out = append(out, a)
	}
	for _, host := range []string{"evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "blue", "[::1].evil.example", "localhost@evil.example"} {
		a := s.rest("Host "+host, s.red, http.MethodGet, "/api/v1/jobs", "", http.Header{"Host": {host}})
		a.codes = []string{"421", "400"}
		out = append(out, a)
	}
	for _, origin := range []string{"https://evil.example", "null", "http://localhost.evil.example", "https://127.0.0.1:1", "file://"} {
		a := s.rest("Origin "+origin, s.red, http.MethodPost, "/api/v1/jobs", `{"request_id":"{id}","name":"x","command":["true"]}`, http.Header{"Origin": {origin}})
		a.codes = []string{"403"}
		g := s.rest("GET from "+origin, s.red, http.MethodGet, "/api/v1/jobs", "", http.Header{"Origin": {origin}})
		g.codes = []string{"403"}
		w := s.rest("WebSocket from "+origin, s.red, http.MethodGet, "/api/v1/events", "", http.Header{
			"Origin": {origin}, "Connection": {"Upgrade"}, "Upgrade": {"websocket"}, "Sec-Websocket-Version": {"13"}, "Sec-Websocket-Key": {"dGhlIHNhbXBsZSBub25jZQ=="},
		})
		w.codes = []string{"403"}
		out = append(out, a, g, w)
	}
	for _, name := range []string{"X-HTTP-Method-Override", "X-Http-Method", "X-Method-Override"} {
		a := s.rest("DELETE by "+name, s.red, http.MethodPost, "/api/v1/jobs/{job}", "", http.Header{name: {"DELETE"}})
		b := s.rest("GET by "+name+" as a form", s.red, http.MethodPost, "/api/v1/jobs/{job}", "a=b", http.Header{name: {"GET"}, "Content-Type": {"application/x-www-form-urlencoded"}})
		out = append(out, a, b)
	}
	for _, kind := range []string{"text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "application/grpc", "application/xml", ""} {
		a := s.rest("a body of kind "+kind, s.red, http.MethodPost, "/api/v1/jobs", `{"request_id":"{id}","name":"x","command":["true"]}`, http.Header{"Content-Type": {kind}})
		a.codes = []string{"415"}
		out = append(out, a)
	}
	spec := `"request_id":"{id}","name":"x","command":["true"]`
	for name, body := range map[string]string{
		"deep lists": `{"command":` + strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000) + "}", "duplicate keys": `{` + spec + `,"tenant_id":"red","tenant_id":"blue"}`,
		"a huge number": `{` + spec + `,"gpu_count":1e400}`, "invalid UTF-8": "{" + spec + ",\"queue\":\"\xff\"}", "two documents": `{` + spec + `}{` + spec + `,"tenant_id":"blue"}`,
	} {
		a := s.rest("a body with "+name, s.red, http.MethodPost, "/api/v1/jobs", body, http.Header{"Content-Type": {"application/json"}})
		a.codes = []string{"400"}
		out = append(out, a)
	}
	return out
}

// This method returns requests that no HTTP client would send. The net/http package rejects most of
// these requests before they become API calls. The audit log then has no entry for them.
func (s *scene) raw() []attempt {
	head := "Host: " + s.http + "\r\nAuthorization: Bearer " + s.red + "\r\nX-Request-Id: {id}\r\n"
	smuggled := "GET /api/v1/jobs/{job} HTTP/1.1\r\nHost: " + s.http + "\r\nAuthorization: Bearer " + s.red + "\r\n\r\n"
	var out []attempt
	for name, text := range map[string]string{
		"Content-Length and Transfer-Encoding": "POST /api/v1/jobs/{job}/retry HTTP/1.1\r\n" + head + "Content-Type: application/json\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + smuggled,
		"two Content-Lengths":                  "POST /api/v1/jobs HTTP/1.1\r\n" + head + "Content-Length: 0\r\nContent-Length: 5\r\n\r\nhello",
		"a Content-Length with a sign":         "POST /api/v1/jobs HTTP/1.1\r\n" + head + "Content-Length: +5\r\n\r\nhello",
		"a negative Content-Length":            "POST /api/v1/jobs HTTP/1.1\r\n" + head + "Content-Length: -1\r\n\r\n",
		"an odd Transfer-Encoding":             "POST /api/v1/jobs HTTP/1.1\r\n" + head + "Transfer-Encoding: xchunked\r\n\r\n",
		"two Transfer-Encodings":               "POST /api/v1/jobs HTTP/1.1\r\n" + head + "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n",
		"a blank before the colon":             "GET /api/v1/jobs/{job} HTTP/1.1\r\n" + head + "Transfer-Encoding : chunked\r\n\r\n",
		"two Hosts":                            "GET /api/v1/jobs/{job} HTTP/1.1\r\n" + head + "Host: evil.example\r\n\r\n",
		"no Host":                              "GET /api/v1/jobs/{job} HTTP/1.1\r\nAuthorization: Bearer " + s.red + "\r\n\r\n",
		"a NUL in a header":                    "GET /api/v1/jobs/{job} HTTP/1.1\r\n" + head + "X-A: a\x00b\r\n\r\n",
		"a NUL in the path":                    "GET /api/v1/jobs/{job}\x00 HTTP/1.1\r\n" + head + "\r\n",
		"a line folded":                        "GET /api/v1/jobs/{job} HTTP/1.1\r\n" + head + "X-A: a\r\n Authorization: Bearer " + s.blueToken + "\r\n\r\n",
		"an absolute address of another":       "GET http://evil.example/api/v1/jobs HTTP/1.1\r\n" + head + "\r\n",
		"CONNECT":                              "CONNECT " + s.metrics + " HTTP/1.1\r\n" + head + "\r\n",
		"a method with a tab":                  "GET\t/api/v1/jobs HTTP/1.1\r\n" + head + "\r\n",
		"HTTP/9.9":                             "GET /api/v1/jobs/{job} HTTP/9.9\r\n" + head + "\r\n",
		"headers beyond the limit":             "GET /api/v1/jobs/{job} HTTP/1.1\r\n" + head + "X-A: " + strings.Repeat("a", 100_000) + "\r\n\r\n",
		"a thousand headers":                   "GET /api/v1/jobs/{job} HTTP/1.1\r\n" + head + strings.Repeat("X-A: "+strings.Repeat("a", 90)+"\r\n", 1000) + "\r\n",
		"the preface of HTTP/2":                "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
		"no HTTP at all":                       "hello\r\n\r\n",
		"HTTP/1.0 without a Host":              "GET /api/v1/jobs/{job} HTTP/1.0\r\nAuthorization: Bearer " + s.red + "\r\n\r\n",
		"a broken chunk":                       "POST /api/v1/jobs HTTP/1.1\r\n" + head + "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n",
		"a chunk of a negative size":           "POST /api/v1/jobs HTTP/1.1\r\n" + head + "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n{}\r\n0\r\n\r\n",
		"a token in a trailer":                 "POST /api/v1/jobs HTTP/1.1\r\nHost: " + s.http + "\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\nTrailer: Authorization\r\n\r\n2\r\n{}\r\n0\r\nAuthorization: Bearer " + s.blueToken + "\r\n\r\n",
	} {
		out = append(out, attempt{name: "raw: " + name, unheard: true, try: func(ctx context.Context, n names, id string) (result, error) { return s.raise(ctx, n.in(text, id)) }})
	}
	return out
}

// This method sends raw bytes to the server, and reads all answers.
func (s *scene) raise(ctx context.Context, text string) (result, error) {
	conn, err := (&tls.Dialer{Config: &tls.Config{RootCAs: s.roots, NextProtos: []string{"http/1.1"}}}).DialContext(ctx, "tcp", s.http)
	if err != nil {
		return result{}, err
	}
	defer conn.Close()
	if err = conn.SetDeadline(time.Now().Add(time.Second)); err != nil {
		return result{}, err
	}
	_, _ = io.WriteString(conn, text) // it may close before it has read all
	out, in := result{refused: true}, bufio.NewReader(conn)
	for {
		resp, err := http.ReadResponse(in, nil)
		if err != nil {
			if out.code == "" {
				out.code = "closed"
			}
			return out, nil //nolint:nilerr // it closed the connection: there is no more
		}
		data, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, os.ErrDeadlineExceeded) {
			return result{}, err
		}
		out.code += fmt.Sprint(resp.StatusCode)
		out.text += string(data)
		out.refused = out.refused && resp.StatusCode/100 == 4
		// HTTP status 501 means that the encoding is not supported. Status 505 means that the HTTP
		// version is not supported.
		out.broken = out.broken || resp.StatusCode/100 == 5 && resp.StatusCode != http.StatusNotImplemented && resp.StatusCode != http.StatusHTTPVersionNotSupported
		out.refused = out.refused || resp.StatusCode == http.StatusNotImplemented || resp.StatusCode == http.StatusHTTPVersionNotSupported
	}
}
