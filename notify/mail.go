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

// Mail sends alerts by SMTP. Mail uses net/smtp instead of the library go-mail, which has three problems. First,
// go-mail leaves the connection open when a server offers no TLS. Second, a server may accept the mail and then hang
// up. In this case go-mail returns an error, so the mail would be sent twice. Third, the errors of go-mail do not show
// whether a server did not answer or hung up.
type Mail struct {
	// Addr is host:port, or smtps://host:port for a server that uses TLS from the first byte. Port 465 also means TLS
	// from the first byte, unless the address is written as smtp://host:465.
	Addr     string
	From     string
	To       []string
	Username string // "" for no login
	Password string
	// Plain allows sending without TLS if the server does not offer it. A password is never sent without TLS, except to
	// this machine itself.
	Plain bool
	// Roots are the certificate authorities that verify the server. By default the system's certificate authorities are
	// used.
	Roots *x509.CertPool
}

// Check reports missing and invalid fields.
func (m *Mail) Check() error {
	at, err := m.server()
	if err != nil {
		return err
	}
	if at.tls && m.Plain {
		return fmt.Errorf("no_tls: this option cannot be combined with %s: remove one of them", at.because)
	}
	if _, err := mail.ParseAddress(m.From); err != nil {
		return fmt.Errorf("from: %q is not a mail address", m.From)
	}
	if len(m.To) == 0 {
		return errors.New("to: the list of recipients is empty: name at least one mail address")
	}
	for _, to := range m.To {
		if _, err := mail.ParseAddress(to); err != nil {
			return fmt.Errorf("to: %q is not a mail address", to)
		}
	}
	return nil
}

// mailServer is the parsed address of a mail server.
type mailServer struct {
	host, addr string
	tls        bool // uses TLS from the start
	because    string
}

func (m *Mail) server() (mailServer, error) {
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
		return mailServer{}, fmt.Errorf("smtp_addr: %q is not an address: write it as mail.example.com:587, or as smtps://mail.example.com:465 if the mail server uses TLS from the start", m.Addr)
	}
	out := mailServer{host: host, addr: net.JoinHostPort(host, given), tls: scheme == "smtps" && named, because: "smtps://"}
	if !named && given == "465" {
		out.tls, out.because = true, "port 465"
	}
	return out, nil
}

// Send implements Sender.
func (m *Mail) Send(ctx context.Context, a Alert) error {
	at, err := m.server()
	if err != nil {
		return ares.Errorf(ares.Invalid, "the address of the mail server is not valid")
	}
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", at.addr)
	if err != nil {
		return fmt.Errorf("the mail server cannot be reached: %s", connectionProblem(err))
	}
	defer conn.Close()
	if deadline, ok := ctx.Deadline(); ok {
		_ = conn.SetDeadline(deadline) // if the deadline cannot be set, the connection is already broken
	}
	err = m.sendOver(ctx, conn, at, a)
	if code, ok := errors.AsType[*textproto.Error](err); ok {
		// The server's reply may quote the message, so the error does not contain the reply.
		err = fmt.Errorf("the mail server answered with code %d", code.Code)
		if code.Code >= 500 {
			err = ares.Errorf(ares.Invalid, "the mail server answered with code %d: check the login and the addresses", code.Code)
		}
	}
	return err
}

// sendOver sends one mail over a connection.
func (m *Mail) sendOver(ctx context.Context, conn net.Conn, at mailServer, a Alert) error {
	c, err := m.connect(ctx, conn, at)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }() // after Quit it is already closed
	if m.Username != "" {
		if err = c.Auth(smtp.PlainAuth("", m.Username, m.Password, at.host)); err != nil {
			return smtpError(err)
		}
	}
	from, err := mail.ParseAddress(m.From)
	if err != nil {
		return ares.Errorf(ares.Invalid, "the sender is not a mail address")
	}
	if err = c.Mail(from.Address); err != nil {
		return smtpError(err)
	}
	for _, text := range m.To {
		to, bad := mail.ParseAddress(text)
		if bad != nil {
			return ares.Errorf(ares.Invalid, "a recipient is not a mail address")
		}
		if err = c.Rcpt(to.Address); err != nil {
			return smtpError(err)
		}
	}
	w, err := c.Data()
	if err != nil {
		return smtpError(err)
	}
	if _, err = w.Write(m.message(a)); err != nil {
		return smtpError(err)
	}
	if err = w.Close(); err != nil {
		return smtpError(err)
	}
	_ = c.Quit() // the mail is already delivered
	return nil
}

// The method `connect` opens an SMTP session with the server. The session uses TLS unless Plain is set and the
// server offers no TLS.
func (m *Mail) connect(ctx context.Context, conn net.Conn, at mailServer) (*smtp.Client, error) {
	cfg := &tls.Config{ServerName: at.host, RootCAs: m.Roots, MinVersion: tls.VersionTLS12}
	if at.tls {
		over := tls.Client(conn, cfg)
		err := over.HandshakeContext(ctx)
		if _, clear := errors.AsType[tls.RecordHeaderError](err); clear {
			return nil, ares.Errorf(ares.Invalid, "the mail server does not use TLS from the start: write its address as smtp://HOST:PORT, and use its STARTTLS port (often 587)")
		}
		if err != nil {
			return nil, smtpError(err)
		}
		conn = over
	}
	c, err := smtp.NewClient(conn, at.host)
	if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() && !at.tls {
		return nil, fmt.Errorf("%w; if the mail server uses TLS from the start, write smtps:// before its address", smtpError(err))
	}
	if err != nil {
		return nil, smtpError(err)
	}
	if at.tls {
		return c, nil
	}
	if ok, _ := c.Extension("STARTTLS"); ok {
		err = c.StartTLS(cfg)
	} else if !m.Plain {
		return nil, ares.Errorf(ares.Invalid, "the mail server does not offer TLS: to send mail without TLS, set no_tls: true for this channel")
	}
	if err != nil {
		return nil, smtpError(err)
	}
	return c, nil
}

// smtpError returns an error that contains the server's code. If there is no code, the error contains the kind of
// failure.
func smtpError(err error) error {
	if _, ok := errors.AsType[*textproto.Error](err); ok {
		return err
	}
	return fmt.Errorf("the SMTP session with the mail server failed: %s", connectionProblem(err))
}

// The method `message` returns the text of the mail. A header value can never add another header to the mail.
func (m *Mail) message(a Alert) []byte {
	oneLine := strings.NewReplacer("\r", " ", "\n", " ")
	var s strings.Builder
	fmt.Fprintf(&s, "From: %s\r\nTo: %s\r\nSubject: %s\r\nDate: %s\r\nMIME-Version: 1.0\r\n", oneLine.Replace(m.From), oneLine.Replace(strings.Join(m.To, ", ")),
		mime.QEncoding.Encode("utf-8", oneLine.Replace(a.Title)), a.At.UTC().Format(time.RFC1123Z))
	if a.ID != "" {
		fmt.Fprintf(&s, "Message-ID: <%s@ares>\r\n", oneLine.Replace(a.ID))
	}
	s.WriteString("Auto-Submitted: auto-generated\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n")
	w := quotedprintable.NewWriter(&s)
	fmt.Fprintf(w, "%s\n\n", a.text())
	for _, d := range a.Details {
		fmt.Fprintf(w, "%s: %s\n", d.Name, d.Value)
	}
	if a.Repeats > 0 {
		fmt.Fprintf(w, "%d more like it were not sent since the last one.\n", a.Repeats)
	}
	_ = w.Close() // writing to a builder cannot fail
	return []byte(s.String())
}

// connectionProblem names the kind of a connection failure, without the address.
func connectionProblem(err error) string {
	var certificate *tls.CertificateVerificationError
	var name *net.DNSError
	var timeout net.Error
	switch {
	case errors.As(err, &certificate):
		return "its certificate is not trusted"
	case errors.As(err, &name):
		return "its host name is unknown"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "the connection was refused"
	case errors.As(err, &timeout) && timeout.Timeout():
		return "it does not answer in time"
	}
	return "the connection broke"
}
