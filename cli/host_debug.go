package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/server"
)

// storeDoor is where a server shows its store to an admin: one JSON object on
// a line for each record.
const storeDoor = "/api/v1/debug/store"

// record is one line of the store door.
type record struct {
	Key            string          `json:"key"`
	Revision       string          `json:"revision"`
	CreateRevision string          `json:"create_revision"`
	Deleted        bool            `json:"deleted"`
	Value          json.RawMessage `json:"value"`
}

func (a *app) debugCommand() *cobra.Command {
	var httpServer string
	c := group("debug", "Look into the store", "",
		a.debugStoreCommand("dump", "Print the records of the store, all of one revision", false, &httpServer),
		a.debugStoreCommand("watch", "Print every change of the store from now on", true, &httpServer))
	c.PersistentFlags().StringVar(&httpServer, "http-server", "", "REST address of the server (default that of the data directory's server, or 127.0.0.1:8080)")
	return c
}

func (a *app) debugStoreCommand(use, short string, watch bool, at *string) *cobra.Command {
	var o readFlags
	c := &cobra.Command{
		Use: use + " [PREFIX]", Short: short, Args: atMostOne,
		Long:    short + ", whose key begins with PREFIX below /ares/: jobs/, runs/, leases/,\nsessions/, nodes/, tenants/, queues/, reservations/,\ntopology/, usage/, loop/.",
		Example: "  ares debug " + use + " runs/",
		RunE: func(cmd *cobra.Command, args []string) error {
			query := url.Values{}
			if len(args) == 1 {
				query.Set("prefix", strings.TrimPrefix(args[0], "/ares/"))
			}
			if watch {
				query.Set("watch", "true")
			}
			return a.readStore(cmd.Context(), *at, query, &o)
		},
	}
	o.addOutput(c)
	return c
}

func (a *app) readStore(ctx context.Context, at string, query url.Values, o *readFlags) error {
	at = strings.TrimPrefix(strings.TrimPrefix(firstOf(at, a.endpoints().HTTP, "127.0.0.1:8080"), "http://"), "https://")
	at = server.Local(at)
	config, err := a.tlsConfig([]string{at})
	if err != nil {
		return err
	}
	scheme := "http"
	if config != nil {
		scheme = "https"
	} else if !onThisMachine([]string{at}) {
		return usagef("%s is not on this machine: TLS is required; add --tls or --tls-ca FILE", at)
	}
	token, err := a.bearerToken(at)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, scheme+"://"+at+storeDoor+"?"+query.Encode(), nil)
	if err != nil {
		return usagef("--http-server %s: %s", at, err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	transport := &http.Transport{TLSClientConfig: config}
	defer transport.CloseIdleConnections()
	resp, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		return ares.Errorf(ares.Unavailable, "%s", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return refusal(resp)
	}
	err = a.printRecords(resp.Body, o)
	if ctx.Err() != nil {
		return nil // the reader has seen enough
	}
	return err
}

// refusal reads the error of the REST door.
func refusal(resp *http.Response) error {
	var body struct {
		Error string    `json:"error"`
		Code  ares.Code `json:"code"`
	}
	data, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	if err != nil || json.Unmarshal(data, &body) != nil || body.Error == "" {
		return fmt.Errorf("the server answered %s", resp.Status)
	}
	if body.Code == "" {
		body.Code = ares.Internal
	}
	return &ares.Error{Code: body.Code, Message: body.Error}
}

func (a *app) printRecords(r io.Reader, o *readFlags) error {
	lines := bufio.NewReader(r)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 1 {
			if bad := a.printRecord(line, o); bad != nil {
				return bad
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read the store: %w", err)
		}
	}
}

func (a *app) printRecord(line []byte, o *readFlags) error {
	var rec record
	if err := json.Unmarshal(line, &rec); err != nil {
		return ares.Errorf(ares.Internal, "read the store: what answers is not the REST door of an Ares server: %s", err)
	}
	if o.output != "table" {
		return a.printStream(o.output, line)
	}
	value := clean(string(rec.Value))
	if rec.Deleted {
		value = "(deleted)"
	}
	say(a.out, "%s @%s %s\n", clean(rec.Key), clean(rec.Revision), value)
	return nil
}

// bearerToken is the token that connect would send.
func (a *app) bearerToken(at string) (string, error) {
	path := a.tokenFile
	if path == "" && os.Getenv("ARES_TOKEN") != "" {
		return os.Getenv("ARES_TOKEN"), nil
	}
	if path = firstOf(path, os.Getenv("ARES_TOKEN_FILE")); path == "" && a.trusted([]string{at}) {
		path = a.tokenPath()
	}
	if path == "" {
		return "", nil
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return "", ares.Errorf(ares.Unauthentic, "read the token file: %s", err)
	}
	return strings.TrimSpace(string(data)), nil
}
