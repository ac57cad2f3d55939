package host

import (
	"bufio"
	"cmp"
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
	"github.com/ares-scheduler/ares/cli/command"
	"github.com/ares-scheduler/ares/cli/exit"
	"github.com/ares-scheduler/ares/cli/output"
	"github.com/ares-scheduler/ares/server"
)

// storePath is the REST path at which a server sends the records of its store to an
// administrator, one JSON object per line.
const storePath = "/api/v1/debug/store"

// The type `record` is one line of the server's answer at storePath.
type record struct {
	Key            string          `json:"key"`
	Revision       string          `json:"revision"`
	CreateRevision string          `json:"create_revision"`
	Deleted        bool            `json:"deleted"`
	Value          json.RawMessage `json:"value"`
}

func (a *commands) debugCommand() *cobra.Command {
	var httpServer string
	c := command.Group("debug", "Inspect the store", "  ares debug dump nodes/", "",
		a.debugStoreCommand("dump", "Print the records in the store at one revision", false, &httpServer),
		a.debugStoreCommand("watch", "Print changes in the store as they happen", true, &httpServer),
		a.debugKeysCommand(), a.debugGetCommand(&httpServer))
	c.PersistentFlags().StringVar(&httpServer, "http-server", "", "REST address of the server (default that of the data directory's server, or 127.0.0.1:8080)")
	return c
}

func (a *commands) debugStoreCommand(use, short string, watch bool, at *string) *cobra.Command {
	var o output.Flags
	c := &cobra.Command{
		Use: use + " [PREFIX]", Short: short, Args: command.MaxOneArg,
		Long:    short + ".\nWith PREFIX, only keys below /ares/ that begin with PREFIX are printed. Common prefixes are jobs/,\nruns/, leases/, sessions/, nodes/, tenants/, queues/, reservations/, topology/, usage/ and loop/.\nThe flag --http-server sets the REST address of the server.",
		Example: "  ares debug " + use + " runs/",
		RunE: func(cmd *cobra.Command, args []string) error {
			query := url.Values{}
			if len(args) == 1 {
				below, err := belowAres(use, args[0])
				if err != nil {
					return err
				}
				query.Set("prefix", below)
			}
			if watch {
				query.Set("watch", "true")
			}
			return a.openStore(cmd.Context(), *at, query, func(r io.Reader) error { return a.printRecords(r, &o) })
		},
	}
	o.AddOutput(c)
	return c
}

// belowAres returns the part of a prefix that follows /ares/. No key of the store begins with another path, so a watch of
// such a prefix would wait forever.
func belowAres(use, prefix string) (string, error) {
	below, own := strings.CutPrefix(prefix, "/ares/")
	if own || !strings.HasPrefix(prefix, "/") {
		return below, nil
	}
	if strings.HasPrefix("/ares/", prefix) {
		return "", nil
	}
	if of := documentKeyOf(prefix); of != nil {
		room := of.rooms[len(of.rooms)-1]
		return "", exit.Usagef("%s is a key of the source document: use ares debug %s %s%s", prefix, use, room, strings.TrimPrefix(prefix, of.prefix))
	}
	return "", exit.Usagef("there are no keys below %s: use a prefix below /ares/, such as ares debug %s runs/", prefix, use)
}

// openStore asks the server for records of its store, and passes the answer to the function `read`.
func (a *commands) openStore(ctx context.Context, at string, query url.Values, read func(io.Reader) error) error {
	at = strings.TrimPrefix(strings.TrimPrefix(cmp.Or(at, a.Endpoints().HTTP, "127.0.0.1:8080"), "http://"), "https://")
	at = server.Local(at)
	config, err := a.TLSConfig([]string{at})
	if err != nil {
		return err
	}
	scheme := "http"
	if config != nil {
		scheme = "https"
	} else if !command.OnThisMachine([]string{at}) {
		return exit.Usagef("%s is not on this machine: TLS is required; add --tls or --tls-ca FILE", at)
	}
	token, err := a.bearerToken(at)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, scheme+"://"+at+storePath+"?"+query.Encode(), nil)
	if err != nil {
		return exit.Usagef("--http-server %s: %s", at, err)
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
	err = read(resp.Body)
	if ctx.Err() != nil {
		return nil // the user interrupted the output
	}
	return err
}

// The function `refusal` returns the error that a REST answer contains.
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

func (a *commands) printRecords(r io.Reader, o *output.Flags) error {
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

func (a *commands) printRecord(line []byte, o *output.Flags) error {
	var rec record
	if err := json.Unmarshal(line, &rec); err != nil {
		return ares.Errorf(ares.Internal, "the response is not from the REST API of an Ares server: %s", err)
	}
	if o.Format != "table" {
		return a.PrintStream(o.Format, line)
	}
	value := output.Clean(string(rec.Value))
	if rec.Deleted {
		value = "(deleted)"
	}
	output.Printf(a.Out, "%s @%s %s\n", output.Clean(rec.Key), output.Clean(rec.Revision), value)
	return nil
}

// bearerToken returns the token that Connect would send.
func (a *commands) bearerToken(at string) (string, error) {
	path := a.TokenFile
	if path == "" && os.Getenv("ARES_TOKEN") != "" {
		return os.Getenv("ARES_TOKEN"), nil
	}
	if path = cmp.Or(path, os.Getenv("ARES_TOKEN_FILE")); path == "" && a.IsTrusted([]string{at}) {
		path = a.TokenPath()
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
