package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/agent"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/cli/exit"
	"github.com/ares-scheduler/ares/cli/output"
	"github.com/ares-scheduler/ares/server"
)

// Report prints an error once and returns the exit code.
func (a *App) Report(err error) int {
	if err == nil {
		return exit.OK
	}
	if exit, ok := errors.AsType[*exit.Error](err); ok {
		return exit.Code
	}
	if err == context.Canceled { //nolint:errorlint // a wrapped error has a more useful text
		err = errors.New("interrupted")
	}
	output.Printf(a.Err, "ares: %s\n", output.Clean(strings.ReplaceAll(err.Error(), "\n", "; ")))
	if hint := a.hint(err); hint != "" {
		output.Printf(a.Err, "  %s\n", hint)
	}
	if _, ok := errors.AsType[*exit.UsageError](err); ok {
		return exit.Usage
	}
	switch code := ares.CodeOf(err); code {
	case ares.Invalid, ares.Conflict, ares.Forbidden, ares.Unauthentic, ares.TooLarge, ares.Fenced:
		return exit.Refused
	default:
		if code.Rejects() {
			return exit.Refused
		}
		return exit.Failed
	}
}

// The method `hint` suggests the next step for an error whose text does not suggest one.
func (a *App) hint(err error) string {
	if errors.Is(err, context.Canceled) || errors.Is(err, agent.ErrNotJoined) {
		return ""
	}
	switch ares.CodeOf(err) {
	case ares.Unavailable:
		return a.whereServer(err)
	case ares.Unauthentic:
		if c := a.usedContext(); c != nil {
			return fmt.Sprintf("log in to the context %s with: ares login; or set the token with --token-file, ARES_TOKEN or ARES_TOKEN_FILE.", c.Name)
		}
		return fmt.Sprintf("set the token with --token-file, ARES_TOKEN or ARES_TOKEN_FILE; a server on this machine stores its admin token in %s.", a.TokenPath())
	default:
		return ""
	}
}

// whereServer suggests what the user can do when no server could handle the request.
func (a *App) whereServer(err error) string {
	at, start := strings.Join(a.Addresses(), ", "), "ares up"
	if a.IsStopped() {
		return fmt.Sprintf("start one with %q, or choose another with --server.", a.InvocationFor(a.Dir())+" up")
	}
	if remedy := a.wrongPort(); remedy != "" {
		return remedy
	}
	if remedy := ConnectRemedy(err); remedy != "" {
		return remedy
	}
	if !strings.Contains(err.Error(), apipb.CannotConnect) {
		return fmt.Sprintf("the server at %s cannot do this now: run %s doctor", at, a.Invocation())
	}
	if c := a.usedContext(); c != nil && c.Serves(a.Addresses()) {
		return fmt.Sprintf("no server of the context %s answers at %s: check that it runs, or choose another context with: ares context use NAME", c.Name, at)
	}
	if !OnThisMachine(a.Addresses()) {
		return fmt.Sprintf("no server answers at %s: check that it runs, or choose another with --server.", at)
	}
	if len(a.Servers) == 0 && os.Getenv("ARES_SERVER") == "" {
		start = a.InvocationFor(a.Dir()) + " up"
		if a.Endpoints().GRPC != "" { // the file is left over from a server that was killed
			at += ", where " + filepath.Join(a.Dir(), server.EndpointsFile) + " says it is"
		}
	}
	return fmt.Sprintf("no server answers at %s: start one with %q, or choose another with --server.", at, start)
}

// ConnectRemedy suggests a fix for a known kind of connection error. For other errors ConnectRemedy
// returns "".
func ConnectRemedy(err error) string {
	text := err.Error()
	for _, c := range []struct{ sign, remedy string }{
		{"does not look like a TLS handshake", "the server has no TLS at this address: remove --tls and --tls-ca, or let the server listen on another address than loopback"},
		{"unknown authority", "set --tls-ca to the authority of the server's certificate: ca.crt in its data directory, unless tls.cert_file is set"},
		{"certificate is valid for", "use a name of the certificate, or add the name to the server's hosts (with tls.cert_file: use another certificate)"},
		{"certificate has expired", "renew the server's certificate, and compare the clocks"},
		{"not yet valid", "compare the clocks of this machine and the server"},
		{"looked like an HTTP/1.1 header", "this address speaks HTTP/1.1, not gRPC, as the addresses for REST and for metrics do: set --server to the server's gRPC address, such as 127.0.0.1:9090"},
		{"error reading server preface", "the server probably requires TLS: add --tls or --tls-ca FILE"},
		{"no such host", "check the host name and DNS"},
		{"deadline exceeded", "no answer: check that the machine is up and that no firewall blocks the port"},
		{"i/o timeout", "no answer: check that the machine is up and that no firewall blocks the port"},
	} {
		if strings.Contains(text, c.sign) {
			return c.remedy
		}
	}
	return ""
}
