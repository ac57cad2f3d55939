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

// These constants limit requests to an issuer.
const (
	fetchAtMost  = 5 * time.Second // minimum time between two requests, because anybody can send a token with an unknown key
	fetchTimeout = 5 * time.Second
	fetchStale   = time.Hour // cached documents are used while the issuer does not answer
	maxFetched   = 1 << 20
)

// The type `fetcher` fetches an issuer's documents. It requests each document at most every few seconds and returns the
// cached one in between. If the issuer does not answer, the cached document is used for a limited time.
type fetcher struct {
	real http.RoundTripper
	now  func() time.Time

	mu    sync.Mutex
	pages map[string]*document
}

// The type `document` is one document of the issuer.
type document struct {
	mu    sync.Mutex
	body  []byte
	at    time.Time // when it was fetched
	tried time.Time
	err   error // error of the last attempt
}

func newFetcher(config *tls.Config, now func() time.Time) *fetcher {
	real := &http.Transport{
		Proxy: http.ProxyFromEnvironment, TLSClientConfig: config, ForceAttemptHTTP2: true,
		MaxIdleConns: 4, IdleConnTimeout: 30 * time.Second, TLSHandshakeTimeout: fetchTimeout,
	}
	return &fetcher{real: real, now: now, pages: map[string]*document{}}
}

// The method `client` returns an HTTP client that uses the fetcher. The client follows no redirects, because the issuer
// itself names the address of its keys.
func (f *fetcher) client() *http.Client {
	return &http.Client{Transport: f, Timeout: fetchTimeout, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// The method `failing` reports whether the last request to the issuer failed.
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

func (p *document) failed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err != nil
}

// RoundTrip implements http.RoundTripper.
func (f *fetcher) RoundTrip(r *http.Request) (*http.Response, error) {
	f.mu.Lock()
	p := f.pages[r.URL.String()]
	if p == nil {
		p = &document{}
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
		err = fmt.Errorf("the response of %s is larger than %d bytes", r.URL, maxFetched)
	}
	return body, err
}
