package command

import (
	"context"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ares-scheduler/ares/cli/output"
	"github.com/ares-scheduler/ares/client"
)

// completionTime limits how long completion waits for a server. The user waits for it at each press of Tab, so with the
// start of the program it takes at most 300 ms.
const completionTime = 250 * time.Millisecond

// Completion returns a function that completes words from the server. The function `list` returns the possible words for
// a beginning; a word may have a description after a tab. If the server does not answer in time or refuses, the function
// completes nothing and prints nothing, because an error would appear in the middle of the user's command line.
func (a *App) Completion(list func(ctx context.Context, c *client.Client, begin string) ([]string, error)) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, begin string) ([]string, cobra.ShellCompDirective) {
		parent := cmd.Context()
		if parent == nil {
			parent = context.Background()
		}
		ctx, cancel := context.WithTimeout(parent, completionTime)
		defer cancel()
		if a.IsStopped() {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		c, err := a.ConnectTo(client.Options{Addresses: a.Addresses(), Attempts: 1, CallTimeout: completionTime})
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		defer c.Close()
		words, err := list(ctx, c, begin)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return safeWords(words), cobra.ShellCompDirectiveNoFileComp
	}
}

// plainWord matches the words that need no quotes in any shell. Users choose the names of jobs, and a shell puts a
// completed word into the command line as it is.
var plainWord = regexp.MustCompile(`^[A-Za-z0-9_.,:@%+/][A-Za-z0-9_.,:@%+/-]*$`)

// safeWords leaves out the words that would need quotes, and removes control characters from the descriptions.
func safeWords(words []string) []string {
	var out []string
	for _, w := range words {
		word, about, described := strings.Cut(w, "\t")
		if !plainWord.MatchString(word) {
			continue
		}
		if about = output.Clean(about); described && about != "" {
			word += "\t" + about
		}
		out = append(out, word)
	}
	return out
}
