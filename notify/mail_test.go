package notify_test

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"io"
	"math/big"
	"mime"
	"mime/quotedprintable"
	"net"
	"net/mail"
	"strings"
	"sync"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/notify"
)

// postOffice is a small mail server with STARTTLS and login, whose answers a test can set.
type postOffice struct {
	addr  string
	roots *x509.CertPool
	cert  tls.Certificate

	mu sync.Mutex
	ledger
}

// A `ledger` contains the configured answers of a postOffice, and the mail that it received.
type ledger struct {
	plain    bool // offers no TLS
	implicit bool // uses TLS from the first byte, as on port 465
	// This list contains one special answer for each connection, which replaces the usual answer. An entry is either a
	// command followed by its answer, such as "DATA 451 later", or the word "silence".
	replies []string

	mails []string
	said  []string // commands received without TLS
	login []string
	rcpts []string
}

// This method returns a copy of the ledger.
func (p *postOffice) seen() ledger {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ledger
}

func newPostOffice(t *testing.T, replies ...string) *postOffice {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	p := &postOffice{ledger: ledger{replies: replies}, roots: x509.NewCertPool(), cert: tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}}
	p.roots.AddCert(leaf)
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p.addr = l.Addr().String()
	var wg sync.WaitGroup
	t.Cleanup(func() { l.Close(); wg.Wait() })
	wg.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { p.serve(conn) })
		}
	})
	return p
}

// This method returns the special answer for this connection, or "" if there is none.
func (p *postOffice) reply() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.replies) == 0 {
		return ""
	}
	r := p.replies[0]
	p.replies = p.replies[1:]
	return r
}

func (p *postOffice) serve(conn net.Conn) {
	defer func() { conn.Close() }()
	special := p.reply()
	if special == "silence" {
		_, _ = io.Copy(io.Discard, conn) // until the client disconnects
		return
	}
	command, answer, _ := strings.Cut(special, " ")
	say := func(line string) { _, _ = io.WriteString(conn, line+"\r\n") }
	in := bufio.NewReader(conn)
	secure := p.seen().implicit
	if secure {
		over := tls.Server(conn, &tls.Config{Certificates: []tls.Certificate{p.cert}})
		if over.Handshake() != nil {
			return
		}
		conn, in = over, bufio.NewReader(over)
	}
	say("220 post office")
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return
		}
		line = strings.TrimSpace(line)
		if !secure {
			p.mu.Lock()
			p.said = append(p.said, line)
			p.mu.Unlock()
		}
		verb, rest, _ := strings.Cut(line, " ")
		switch {
		case verb == command && verb != "":
			say(answer)
		case verb == "EHLO" && (secure || p.seen().plain):
			say("250-here\r\n250 AUTH PLAIN")
		case verb == "EHLO":
			say("250-here\r\n250 STARTTLS")
		case verb == "STARTTLS":
			say("220 go on")
			over := tls.Server(conn, &tls.Config{Certificates: []tls.Certificate{p.cert}})
			if over.Handshake() != nil {
				return
			}
			conn, in, secure = over, bufio.NewReader(over), true
		case verb == "AUTH":
			p.mu.Lock()
			text, _ := base64.StdEncoding.DecodeString(strings.TrimPrefix(rest, "PLAIN "))
			p.login = append(p.login, string(text))
			p.mu.Unlock()
			say("235 welcome")
		case verb == "RCPT":
			p.mu.Lock()
			p.rcpts = append(p.rcpts, rest)
			p.mu.Unlock()
			say("250 ok")
		case verb == "DATA":
			say("354 go on")
			var body strings.Builder
			for {
				text, err := in.ReadString('\n')
				if err != nil {
					return
				}
				if text == ".\r\n" {
					break
				}
				if strings.HasPrefix(text, "..") { // SMTP adds the first dot
					text = text[1:]
				}
				body.WriteString(text)
			}
			p.mu.Lock()
			p.mails = append(p.mails, body.String())
			p.mu.Unlock()
			say("250 taken")
		case verb == "QUIT":
			say("221 bye")
			return
		default:
			say("250 ok")
		}
	}
}

func (p *postOffice) sender() *notify.Mail {
	return &notify.Mail{Addr: p.addr, From: "Ares <ares@example.com>", To: []string{"ops@example.com", "Ann <ann@example.com>"}, Username: "ares", Password: canary, Roots: p.roots}
}

// TestMail checks that a mail is sent over TLS after a login, to all recipients. Text from a job must not become a mail
// header.
func TestMail(t *testing.T) {
	p := newPostOffice(t)
	a := alert
	a.Title, a.Text = "Ares: größer\r\nBcc: everybody@example.com", "first\n.\nlast"
	if err := p.sender().Send(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	m, err := mail.ReadMessage(strings.NewReader(p.seen().mails[0]))
	if err != nil {
		t.Fatal(err)
	}
	subject, err := new(mime.WordDecoder).DecodeHeader(m.Header.Get("Subject"))
	if err != nil || subject != "Ares: größer  Bcc: everybody@example.com" || m.Header.Get("Bcc") != "" {
		t.Errorf("subject %q, headers %v, %v", subject, m.Header, err)
	}
	body, err := io.ReadAll(quotedprintable.NewReader(m.Body))
	if text := strings.ReplaceAll(string(body), "\r\n", "\n"); err != nil || text != "first\n.\nlast\n\ntenant: vision\nuser: oidc:ann\n" {
		t.Errorf("body %q, %v", text, err)
	}
	if strings.Join(p.seen().rcpts, " ") != "TO:<ops@example.com> TO:<ann@example.com>" || len(p.seen().login) != 1 || p.seen().login[0] != "\x00ares\x00"+canary {
		t.Errorf("to %v, login %q", p.seen().rcpts, p.seen().login)
	}
	for _, line := range p.seen().said {
		if verb, _, _ := strings.Cut(line, " "); verb != "EHLO" && verb != "STARTTLS" {
			t.Errorf("said in the clear: %q", line)
		}
	}
}

// TestMailRecovers uses a mail server that first does not answer, then rejects the mail temporarily, and then accepts
// it. The mail must be delivered exactly once.
func TestMailRecovers(t *testing.T) {
	p := newPostOffice(t, "silence", "MAIL 451 later", "DATA 452 full", "")
	b := start(t, p.sender(), func(o *notify.Options) { o.Timeout = 5 * time.Second }) // only the silent server reaches it
	b.Tell("ops", alert)
	b.await(t, "ops sent")
	if len(p.seen().mails) != 1 || strings.Contains(b.logged(), canary) {
		t.Errorf("%d mails, log %s", len(p.seen().mails), b.logged())
	}
}

// TestMailRefused checks that a permanent rejection is not retried. Text quoted by the server must not appear in the
// error.
func TestMailRefused(t *testing.T) {
	for command, reply := range map[string]string{"AUTH": "535 no " + canary, "MAIL": "550 " + canary, "RCPT": "550 nobody " + canary} {
		p := newPostOffice(t, command+" "+reply, "", "")
		b := start(t, p.sender(), nil)
		b.Tell("ops", alert)
		b.await(t, "ops failed")
		s := b.Status()[0]
		if len(p.seen().mails) != 0 || len(p.seen().replies) != 2 || !strings.Contains(s.LastError, "the mail server answered with code 5") || strings.Contains(s.LastError+b.logged(), canary) {
			t.Errorf("%s: %+v, log %s", command, s, b.logged())
		}
		b.stop()
	}
}

// TestMailNeedsTLS checks that mail is sent without TLS only if the configuration allows it. Mail must never be sent to
// a server whose certificate is not trusted.
func TestMailNeedsTLS(t *testing.T) {
	p := newPostOffice(t)
	stranger := p.sender()
	stranger.Roots = x509.NewCertPool()
	if err := stranger.Send(t.Context(), alert); err == nil || !strings.Contains(err.Error(), "certificate is not trusted") {
		t.Error(err)
	}
	p.mu.Lock()
	p.plain = true
	p.mu.Unlock()
	if err := p.sender().Send(t.Context(), alert); ares.CodeOf(err) != ares.Invalid || !strings.Contains(err.Error(), "does not offer TLS") {
		t.Error(err)
	}
	if len(p.seen().mails) != 0 || len(p.seen().login) != 0 {
		t.Errorf("mails %v, login %v", p.seen().mails, p.seen().login)
	}
	open := p.sender()
	open.Plain, open.Username = true, ""
	if err := open.Send(t.Context(), alert); err != nil || len(p.seen().mails) != 1 {
		t.Errorf("%v, %d mails", err, len(p.seen().mails))
	}
}

// TestMailOverTLSFromTheStart checks that an smtps:// channel uses TLS from the first byte. Sending must fail if the
// certificate is not trusted or if the server has no TLS.
func TestMailOverTLSFromTheStart(t *testing.T) {
	p := newPostOffice(t)
	p.mu.Lock()
	p.implicit = true
	p.mu.Unlock()
	m := p.sender()
	m.Addr = "smtps://" + p.addr
	if err := m.Send(t.Context(), alert); err != nil {
		t.Fatal(err)
	}
	if s := p.seen(); len(s.mails) != 1 || len(s.said) != 0 || len(s.login) != 1 {
		t.Errorf("%d mails, said in the clear %v, login %q", len(s.mails), s.said, s.login)
	}
	stranger := *m
	stranger.Roots = x509.NewCertPool()
	if err := stranger.Send(t.Context(), alert); err == nil || !strings.Contains(err.Error(), "certificate is not trusted") {
		t.Error(err)
	}
	clear := newPostOffice(t).sender()
	clear.Addr, clear.Plain = "smtps://"+clear.Addr, true
	if err := clear.Send(t.Context(), alert); err == nil || !strings.Contains(err.Error(), "does not use TLS from the start: write its address as smtp://HOST:PORT") {
		t.Error(err)
	}
	hasty := p.sender() // smtps:// is missing: the server waits for a TLS handshake
	soon, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if err := hasty.Send(soon, alert); err == nil || !strings.Contains(err.Error(), "if the mail server uses TLS from the start, write smtps:// before its address") {
		t.Error(err)
	}
}

// TestMailCheck checks that missing fields of a channel are reported.
func TestMailCheck(t *testing.T) {
	for want, m := range map[string]notify.Mail{
		"smtp_addr":                    {From: "a@b", To: []string{"a@b"}},
		"\"m\" is not an address":      {Addr: "m", From: "a@b", To: []string{"a@b"}},
		"\"http://m\" is not an":       {Addr: "http://m", From: "a@b", To: []string{"a@b"}},
		"\"smtps://m:25/x\" is not an": {Addr: "smtps://m:25/x", From: "a@b", To: []string{"a@b"}},
		"no_tls: this option cannot be combined with smtps://": {Addr: "smtps://m", From: "a@b", To: []string{"a@b"}, Plain: true},
		"no_tls: this option cannot be combined with port 465": {Addr: "m:465", From: "a@b", To: []string{"a@b"}, Plain: true},
		"from":                                {Addr: "a:1", From: "nobody", To: []string{"a@b"}},
		"to: the list of recipients is empty": {Addr: "a:1", From: "a@b"},
		"to: \"x\"":                           {Addr: "a:1", From: "a@b", To: []string{"x"}},
	} {
		if err := m.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v", m, err)
		}
	}
	for _, addr := range []string{"m:25", "m:465", "smtps://m", "smtps://m:4650", "smtp://m:587", "smtp://m", "[::1]:25", "smtps://[::1]"} {
		m := notify.Mail{Addr: addr, From: "a@b", To: []string{"a@b"}}
		if err := m.Check(); err != nil {
			t.Errorf("%s: %v", addr, err)
		}
	}
	plain := notify.Mail{Addr: "smtp://m:465", From: "a@b", To: []string{"a@b"}, Plain: true}
	if err := plain.Check(); err != nil { // smtp:// is given, so the port does not matter
		t.Error(err)
	}
}
