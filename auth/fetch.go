package auth

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"
)

// How an issuer is asked.
const (
	fetchAtMost  = 5 * time.Second // between two questions: anybody can send a token with a key nobody knows
	fetchTimeout = 5 * time.Second
	fetchStale   = time.Hour // what it said counts while it does not answer
	maxFetched   = 1 << 20
)

// fetcher asks an issuer for its documents. It asks for each at most every few
// seconds and answers with what it got in between, and for a while when the
// issuer does not answer.
type fetcher struct {
	real http.RoundTripper
	now  func() time.Time

	mu    sync.Mutex
	pages map[string]*page
}

// page is one document of the issuer.
type page struct {
	mu    sync.Mutex
	body  []byte
	at    time.Time // when it was got
	tried time.Time
	err   error // of the last try
}

func newFetcher(config *tls.Config, now func() time.Time) *fetcher {
	real := &http.Transport{
		Proxy: http.ProxyFromEnvironment, TLSClientConfig: config, ForceAttemptHTTP2: true,
		MaxIdleConns: 4, IdleConnTimeout: 30 * time.Second, TLSHandshakeTimeout: fetchTimeout,
	}
	return &fetcher{real: real, now: now, pages: map[string]*page{}}
}

// client asks through the fetcher. It follows no redirection: the issuer says by
// itself where its keys are.
func (f *fetcher) client() *http.Client {
	return &http.Client{Transport: f, Timeout: fetchTimeout, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// failing says whether the issuer did not answer when it was last asked.
func (f *fetcher) failing() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, p := range f.pages {
		if p.failed() {
			return true
		}
	}
	return false
}

func (p *page) failed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err != nil
}

// RoundTrip implements http.RoundTripper.
func (f *fetcher) RoundTrip(r *http.Request) (*http.Response, error) {
	f.mu.Lock()
	p := f.pages[r.URL.String()]
	if p == nil {
		p = &page{}
		f.pages[r.URL.String()] = p
	}
	f.mu.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	now := f.now()
	if p.tried.IsZero() || now.Sub(p.tried) >= fetchAtMost {
		p.tried = now
		body, err := f.get(r)
		if p.err = err; err == nil {
			p.body, p.at = body, now
		}
	}
	if p.body == nil || p.err != nil && now.Sub(p.at) > fetchStale {
		return nil, p.err
	}
	return &http.Response{
		Status: "200 OK", StatusCode: http.StatusOK, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(p.body)),
		ContentLength: int64(len(p.body)), Request: r,
	}, nil
}

func (f *fetcher) get(r *http.Request) ([]byte, error) {
	resp, err := f.real.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answered %s", r.URL, resp.Status)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxFetched+1))
	if err == nil && len(body) > maxFetched {
		err = fmt.Errorf("%s answered more than %d bytes", r.URL, maxFetched)
	}
	return body, err
}
