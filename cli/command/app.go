// Package command contains the code that all commands share: the global flags, the connection
// to a server, arguments, files, times and the report of errors. Package command depends on
// no specific command.
package command

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ares-scheduler/ares/cli/output"
	"github.com/ares-scheduler/ares/client"
	"github.com/ares-scheduler/ares/server"
)

// InvocationFor returns the start of a command line that uses the data directory `dir` and works in
// another terminal. The returned command line depends neither on the working directory nor on the
// environment of this process.
func (a *App) InvocationFor(dir string) string {
	if dir == server.DefaultDataDir() {
		return "ares"
	}
	if whole, err := filepath.Abs(dir); err == nil {
		dir = whole
	}
	return "ares --data-dir " + output.CommandLine([]string{dir})
}

// App is one invocation of the program. An App contains the input, the output and the global flags.
type App struct {
	output.Printer
	In      io.Reader
	Version string

	Servers   []string
	DataDir   string
	TokenFile string
	TLS       bool
	TLSCA     string
	// ContextName is the value of --context.
	ContextName string

	context contextState
}

// Program returns the path by which this program was called, or "ares" if it was found
// through PATH. If it was called by another of its names, Program returns the path of "ares" in the same directory.
func Program() string {
	dir, name := filepath.Split(os.Args[0])
	if dir == "" {
		return "ares"
	}
	if name == "ares" {
		return os.Args[0]
	}
	if _, err := os.Stat(dir + "ares"); err == nil {
		return dir + "ares"
	}
	return "ares"
}

// Invocation returns the program name with the global flags that are needed to reach the same
// server.
func (a *App) Invocation() string {
	words := []string{Program()}
	if a.ContextName != "" {
		words = append(words, "--context", a.ContextName)
	}
	if a.DataDir != "" {
		words = append(words, "--data-dir", a.DataDir)
	}
	if len(a.Servers) > 0 {
		words = append(words, "--server", strings.Join(a.Servers, ","))
	}
	if a.TokenFile != "" {
		words = append(words, "--token-file", a.TokenFile)
	}
	return output.CommandLine(words)
}

// WithClient connects to a server, runs the command with the client, and closes the client.
func (a *App) WithClient(run func(ctx context.Context, c *client.Client, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		c, err := a.Connect()
		if err != nil {
			return err
		}
		return errors.Join(run(cmd.Context(), c, args), c.Close())
	}
}
