package notify

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"syscall"
	"time"

	ares "github.com/ares-scheduler/ares"
)

// Hook posts events of jobs to URLs that users chose. A user must not reach services that only the server can reach:
// Hook connects only to public addresses and to those that the operator allows. It checks the address of the
// connection itself, so a name that resolves to another address later does not help. It follows no redirects, uses no
// proxy, and tells nothing of the answer but its status.
type Hook struct {
	key     []byte
	allowed []netip.Prefix
	client  *http.Client
}

// NewHook returns a Hook. The key signs the bodies, and `private` lists networks that are not public and that hooks may
// reach nevertheless.
func NewHook(key []byte, private []netip.Prefix) *Hook {
	h := &Hook{key: key, allowed: private}
	dialer := &net.Dialer{Timeout: 5 * time.Second, Control: func(_, address string, _ syscall.RawConn) error {
		at, err := netip.ParseAddrPort(address)
		if err != nil {
			return errForbiddenAddress
		}
		return h.CheckAddress(at.Addr())
	}}
	h.client = &http.Client{
		Transport:     &http.Transport{DialContext: dialer.DialContext, MaxIdleConns: 16, IdleConnTimeout: 30 * time.Second, TLSHandshakeTimeout: 5 * time.Second, MaxResponseHeaderBytes: 16 << 10},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return h
}

var errForbiddenAddress = ares.Errorf(ares.Invalid, "the webhook has an address that is not public: ask the operator to add its network to notifications.private_networks")

// specialNetworks are networks that netip does not count as private and that are not public either: shared addresses
// of providers, protocol assignments, tests, translations of IPv4 addresses to IPv6, and reserved ones.
var specialNetworks = func() (out []netip.Prefix) {
	for _, text := range []string{
		"0.0.0.0/8", "100.64.0.0/10", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "240.0.0.0/4",
		"::/96", "64:ff9b::/96", "64:ff9b:1::/48", "100::/64", "2001::/23", "2001:db8::/32", "2002::/16", "fec0::/10",
	} {
		out = append(out, netip.MustParsePrefix(text))
	}
	return out
}()

// CheckAddress rejects an address that is neither public nor allowed by the operator.
func (h *Hook) CheckAddress(a netip.Addr) error {
	a = a.Unmap().WithZone("")
	if h.isAllowed(a) {
		return nil
	}
	bad := !a.IsValid() || !a.IsGlobalUnicast() || a.IsPrivate() || a.IsLoopback() || a.IsLinkLocalUnicast()
	for _, p := range specialNetworks {
		bad = bad || p.Contains(a)
	}
	if bad {
		return errForbiddenAddress
	}
	return nil
}

func (h *Hook) isAllowed(a netip.Addr) bool {
	for _, p := range h.allowed {
		if p.Contains(a) {
			return true
		}
	}
	return false
}

// CheckURL rejects a URL that can never be used: one with an address that is not allowed, and one without TLS, unless
// its address is in an allowed private network.
func (h *Hook) CheckURL(rule *ares.NotifyRule) error {
	u, err := url.Parse(rule.Target)
	if err != nil || u.Hostname() == "" || u.User != nil {
		return ares.Errorf(ares.Invalid, "the URL of the webhook is not valid")
	}
	a, err := netip.ParseAddr(u.Hostname())
	literal := err == nil
	if literal {
		if err := h.CheckAddress(a); err != nil {
			return err
		}
	}
	if u.Scheme != "https" && !(literal && h.isAllowed(a.Unmap().WithZone(""))) {
		return ares.Errorf(ares.Invalid, "the URL of a webhook must begin with https://")
	}
	return nil
}

// TenantKey returns the key that signs the events of a tenant's jobs, as hexadecimal digits. The receiver of a tenant
// knows only this key, so it cannot sign events of another tenant.
func TenantKey(key []byte, tenant string) string {
	return hex.EncodeToString(sign(key, []byte("tenant:"+tenant)))
}

func sign(key, data []byte) []byte {
	m := hmac.New(sha256.New, key)
	m.Write(data)
	return m.Sum(nil)
}

// Post sends an event to a URL once. The header Ares-Signature is "t=SECONDS,v1=HEX": the HMAC-SHA256, with the tenant's
// key, of the seconds since 1970, a dot and the body.
func (h *Hook) Post(ctx context.Context, target, tenant, id string, event any, now time.Time) error {
	body, err := json.Marshal(event)
	if err != nil {
		return fmt.Errorf("encode the event: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, target, bytes.NewReader(body))
	if err != nil {
		return ares.Errorf(ares.Invalid, "the URL of the webhook is not valid")
	}
	stamp := fmt.Sprint(now.Unix())
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "ares")
	req.Header.Set("Ares-Event-Id", id)
	req.Header.Set("Ares-Signature", "t="+stamp+",v1="+hex.EncodeToString(sign([]byte(TenantKey(h.key, tenant)), append([]byte(stamp+"."), body...))))
	resp, err := h.client.Do(req)
	if err != nil {
		if errors.Is(err, errForbiddenAddress) {
			return errForbiddenAddress
		}
		return withoutAddress(ctx, err)
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 64<<10)) // so that the connection is reused
	switch {
	case resp.StatusCode < 300:
		return nil
	case resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode == http.StatusRequestTimeout || resp.StatusCode >= 500:
		return fmt.Errorf("the webhook answered with status %d", resp.StatusCode)
	}
	return ares.Errorf(ares.Invalid, "the webhook answered with status %d", resp.StatusCode)
}
