package server_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/server"
)

// TestCloseRemovesItsEndpoints checks that a stopped server removes its server.json. Otherwise clients would try a
// closed port. The stopped server must not remove another server's file.
func TestCloseRemovesItsEndpoints(t *testing.T) {
	cfg := server.Default()
	cfg.DataDir = t.TempDir()
	cfg.HTTPAddr, cfg.GRPCAddr, cfg.MetricsAddr = "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0"
	file := filepath.Join(cfg.DataDir, server.EndpointsFile)
	const others = `{"http":"127.0.0.1:1","grpc":"127.0.0.1:2","metrics":"127.0.0.1:3"}`
	for _, replaced := range []bool{false, true} {
		s, err := server.Start(t.Context(), cfg, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		if _, err = os.Stat(file); err != nil {
			t.Error(err)
		}
		if replaced {
			if err = os.WriteFile(file, []byte(others), 0o600); err != nil {
				t.Error(err)
			}
		}
		s.Close()
		data, err := os.ReadFile(file)
		if !replaced && !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the file is still there: %s %v", data, err)
		}
		if replaced && string(data) != others {
			t.Errorf("the file of another server is now %q, %v", data, err)
		}
	}
}

// TestCloseDrainsAllListenersAtOnce checks that a slow request at one listener does not shorten the time for requests at other
// listeners. In this test the REST listener is still draining when the gRPC listener is done.
func TestCloseDrainsAllListenersAtOnce(t *testing.T) {
	cfg := server.Default()
	cfg.DataDir = t.TempDir()
	cfg.HTTPAddr, cfg.GRPCAddr, cfg.MetricsAddr = "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0"
	s, err := server.Start(t.Context(), cfg, slog.New(slog.DiscardHandler))
	must(t, err)
	defer s.Close()
	secret, err := os.ReadFile(s.AdminToken)
	must(t, err)
	token := "Bearer " + strings.TrimSpace(string(secret))
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()

	var dialer net.Dialer
	slow, err := dialer.DialContext(ctx, "tcp", s.Endpoints.HTTP)
	must(t, err)
	defer slow.Close()
	_, err = fmt.Fprintf(slow, "POST /api/v1/tenants HTTP/1.1\r\nHost: %s\r\nAuthorization: %s\r\nExpect: 100-continue\r\nContent-Length: 100\r\n\r\n", s.Endpoints.HTTP, token)
	must(t, err)
	in := bufio.NewReader(slow)
	if line, readErr := in.ReadString('\n'); !strings.Contains(line, "100 Continue") {
		t.Fatalf("the request was answered %q, %v", line, readErr)
	}

	conn, err := grpc.NewClient("passthrough:///"+s.Endpoints.GRPC, grpc.WithTransportCredentials(insecure.NewCredentials()))
	must(t, err)
	defer conn.Close()
	as := metadata.AppendToOutgoingContext(ctx, "authorization", token)
	call, err := conn.NewStream(as, &grpc.StreamDesc{ClientStreams: true}, apipb.TenantService_ListTenants_FullMethodName)
	must(t, err)
	// This second call uses the same connection. When it is answered, the server has also received the first call.
	_, err = apipb.NewTenantServiceClient(conn).ListTenants(as, &apipb.ListTenantsRequest{})
	must(t, err)

	closed := make(chan struct{})
	go func() {
		defer close(closed)
		s.Close()
	}()
	for err == nil { // until the server accepts no new calls and only waits for running ones
		var other net.Conn
		if other, err = dialer.DialContext(ctx, "tcp", s.Endpoints.GRPC); err == nil {
			must(t, other.Close())
		}
	}
	must(t, ctx.Err())
	must(t, call.SendMsg(&apipb.ListTenantsRequest{}))
	must(t, call.CloseSend())
	answer := &apipb.ListTenantsResponse{}
	if err = call.RecvMsg(answer); err != nil || answer.GetTotal() == 0 {
		t.Errorf("a call under way was answered with %d tenants, %v", answer.GetTotal(), err)
	}
	_, err = slow.Write(make([]byte, 100))
	must(t, err)
	if _, err = in.ReadString('\n'); err == nil { // the empty line after status 100
		_, err = in.ReadString('\n')
	}
	must(t, err)
	<-closed
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
