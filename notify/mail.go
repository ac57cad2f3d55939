package notify

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"mime"
	"mime/quotedprintable"
	"net"
	"net/mail"
	"net/smtp"
	"net/textproto"
	"strconv"
	"strings"
	"syscall"
	"time"

	ares "github.com/ares-scheduler/ares"
)

// Mail sends alerts by SMTP.
type Mail struct {
	// Addr is host:port, or smtps://host:port for a server that speaks TLS from the
	// start; one on port 465 does unless it is written smtp://host:465.
	Addr     string
	From     string
	To       []string
	Username string // "" for no login
	Password string
	// Plain sends without TLS where the server offers none. A password is never
	// sent so, but to this machine itself.
	Plain bool
	// Roots verify the server. Default: the system's.
	Roots *x509.CertPool
}

// Check tells what is missing.
func (m *Mail) Check() error {
	at, err := m.where()
	if err != nil {
		return err
	}
	if at.tls && m.Plain {
		return fmt.Errorf("no_tls: contradicts %s: remove one of them", at.because)
	}
	if _, err := mail.ParseAddress(m.From); err != nil {
		return fmt.Errorf("from: %q is not a mail address", m.From)
	}
	if len(m.To) == 0 {
		return errors.New("to: is empty: name at least one mail address")
	}
	for _, to := range m.To {
		if _, err := mail.ParseAddress(to); err != nil {
			return fmt.Errorf("to: %q is not a mail address", to)
		}
	}
	return nil
}

// office is where a mail server is.
type office struct {
	host, addr string
	tls        bool // from the start
	because    string
}

func (m *Mail) where() (office, error) {
	scheme, rest, named := strings.Cut(m.Addr, "://")
	port := map[string]string{"smtp": "587", "smtps": "465"}[scheme]
	if !named {
		rest = m.Addr
	}
	host, given, err := net.SplitHostPort(rest)
	if err != nil && named {
		host, given, err = net.SplitHostPort(rest + ":" + port)
	}
	if _, bad := strconv.ParseUint(given, 10, 16); err != nil || bad != nil || host == "" || named && port == "" {
		return office{}, fmt.Errorf("smtp_addr: %q is not an address: write it as mail.example.com:587, or as smtps://mail.example.com:465 where it speaks TLS from the start", m.Addr)
	}
	out := office{host: host, addr: net.JoinHostPort(host, given), tls: scheme == "smtps" && named, because: "smtps://"}
	if !named && given == "465" {
		out.tls, out.because = true, "port 465"
	}
	return out, nil
}

// Send implements Sender.
func (m *Mail) Send(ctx context.Context, a Alert) error {
	at, err := m.where()
	if err != nil {
		return ares.Errorf(ares.Invalid, "the address of the mail server is not one")
	}
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", at.addr)
	if err != nil {
		return fmt.Errorf("the mail server cannot be reached: %s", kindOf(err))
	}
	defer conn.Close()
	if deadline, ok := ctx.Deadline(); ok {
		_ = conn.SetDeadline(deadline) // a connection that cannot have one has just failed
	}
	err = m.converse(ctx, conn, at, a)
	if code, ok := errors.AsType[*textproto.Error](err); ok {
		// Its text may quote what was sent.
		err = fmt.Errorf("the mail server answered %d", code.Code)
		if code.Code >= 500 {
			err = ares.Errorf(ares.Invalid, "the mail server answered %d: see that login and addresses are right", code.Code)
		}
	}
	return err
}

// converse is one conversation with the server.
func (m *Mail) converse(ctx context.Context, conn net.Conn, at office, a Alert) error {
	c, err := m.secured(ctx, conn, at)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }() // after Quit it is closed already
	if m.Username != "" {
		if err = c.Auth(smtp.PlainAuth("", m.Username, m.Password, at.host)); err != nil {
			return said(err)
		}
	}
	from, err := mail.ParseAddress(m.From)
	if err != nil {
		return ares.Errorf(ares.Invalid, "the sender is no mail address")
	}
	if err = c.Mail(from.Address); err != nil {
		return said(err)
	}
	for _, text := range m.To {
		to, bad := mail.ParseAddress(text)
		if bad != nil {
			return ares.Errorf(ares.Invalid, "a receiver is no mail address")
		}
		if err = c.Rcpt(to.Address); err != nil {
			return said(err)
		}
	}
	w, err := c.Data()
	if err != nil {
		return said(err)
	}
	if _, err = w.Write(m.message(a)); err != nil {
		return said(err)
	}
	if err = w.Close(); err != nil {
		return said(err)
	}
	_ = c.Quit() // it is delivered already
	return nil
}

// secured greets the server, over TLS unless none is meant.
func (m *Mail) secured(ctx context.Context, conn net.Conn, at office) (*smtp.Client, error) {
	cfg := &tls.Config{ServerName: at.host, RootCAs: m.Roots, MinVersion: tls.VersionTLS12}
	if at.tls {
		over := tls.Client(conn, cfg)
		err := over.HandshakeContext(ctx)
		if _, clear := errors.AsType[tls.RecordHeaderError](err); clear {
			return nil, ares.Errorf(ares.Invalid, "the mail server does not speak TLS from the start: write its address as smtp://HOST:PORT, with its port for STARTTLS, often 587")
		}
		if err != nil {
			return nil, said(err)
		}
		conn = over
	}
	c, err := smtp.NewClient(conn, at.host)
	if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() && !at.tls {
		return nil, fmt.Errorf("%w; where it speaks TLS from the start, write smtps:// before its address", said(err))
	}
	if err != nil {
		return nil, said(err)
	}
	if at.tls {
		return c, nil
	}
	if ok, _ := c.Extension("STARTTLS"); ok {
		err = c.StartTLS(cfg)
	} else if !m.Plain {
		return nil, ares.Errorf(ares.Invalid, "the mail server offers no TLS: set no_tls: true for the channel where that is meant")
	}
	if err != nil {
		return nil, said(err)
	}
	return c, nil
}

// said keeps the server's code, and the kind of any other failure.
func said(err error) error {
	if _, ok := errors.AsType[*textproto.Error](err); ok {
		return err
	}
	return fmt.Errorf("the conversation with the mail server failed: %s", kindOf(err))
}

// message is the mail. Headers hold nothing that could become another header.
func (m *Mail) message(a Alert) []byte {
	oneLine := strings.NewReplacer("\r", " ", "\n", " ")
	var s strings.Builder
	fmt.Fprintf(&s, "From: %s\r\nTo: %s\r\nSubject: %s\r\nDate: %s\r\nMIME-Version: 1.0\r\n", oneLine.Replace(m.From), oneLine.Replace(strings.Join(m.To, ", ")),
		mime.QEncoding.Encode("utf-8", oneLine.Replace(a.Title)), a.At.UTC().Format(time.RFC1123Z))
	s.WriteString("Auto-Submitted: auto-generated\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n")
	w := quotedprintable.NewWriter(&s)
	fmt.Fprintf(w, "%s\n\n", a.Text)
	for _, d := range a.Details {
		fmt.Fprintf(w, "%s: %s\n", d.Name, d.Value)
	}
	if a.Repeats > 0 {
		fmt.Fprintf(w, "%d more like it were not sent since the last one.\n", a.Repeats)
	}
	_ = w.Close() // a builder takes everything
	return []byte(s.String())
}

// kindOf names the kind of a failure of a connection without its address.
func kindOf(err error) string {
	var certificate *tls.CertificateVerificationError
	var name *net.DNSError
	var timeout net.Error
	switch {
	case errors.As(err, &certificate):
		return "its certificate is not trusted"
	case errors.As(err, &name):
		return "its name is not known"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "the connection was refused"
	case errors.As(err, &timeout) && timeout.Timeout():
		return "it does not answer in time"
	}
	return "the connection broke"
}
