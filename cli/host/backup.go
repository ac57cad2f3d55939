package host

import (
	"context"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/ares-scheduler/ares/cli/command"
	"github.com/ares-scheduler/ares/cli/exit"
	"github.com/ares-scheduler/ares/cli/output"
	"github.com/ares-scheduler/ares/client"
	"github.com/ares-scheduler/ares/server"
)

func (a *commands) backupCommand() *cobra.Command {
	var o output.Flags
	var force bool
	c := &cobra.Command{
		Use: "backup FILE", Short: "Back up the store of a running server", Args: command.ExactArgs("FILE"),
		Long: `Write a backup of the store of a running server. The store can be embedded or external. The
backup contains every change that was acknowledged before the backup started. The backup file is
written completely or not at all. Only the owner of this file can read it, because it contains
jobs' environment variables.

Also back up each server's archive.jsonl file, because it lists the archived jobs.`,
		Example: "  ares backup ares.backup --force",
		RunE: a.WithClient(func(ctx context.Context, c *client.Client, args []string) error {
			began, size := a.Now(), int64(0)
			err := server.WriteWhole(args[0], force, func(w io.Writer) (err error) {
				size, err = c.Backup(ctx, w)
				return err
			})
			if err != nil {
				return err
			}
			return a.PrintValue(o.Format, map[string]any{"file": args[0], "bytes": size}, func(w io.Writer) {
				output.Printf(w, "%s: %d bytes in %s, checked\n", output.Clean(args[0]), size, a.Now().Sub(began).Round(time.Millisecond))
			})
		}),
	}
	c.Flags().BoolVar(&force, "force", false, "replace FILE if it exists")
	o.AddOutput(c)
	return c
}

// restoreFlags are the flags that control how a restore changes the data of a backup.
type restoreFlags struct {
	server.Restoration

	output output.Flags
}

func (f *restoreFlags) add(c *cobra.Command) {
	c.Flags().StringArrayVar(&f.Archives, "archive", nil, "archive.jsonl of a server; jobs that are listed there are not run again; may be repeated")
	c.Flags().StringVar(&f.History, "history", "", "URL or file of the history; jobs that ended according to the history are not run again (default history.db of the data directory, if it exists)")
	c.Flags().Int64Var(&f.Bump, "revision-bump", 0, "raise revisions by this number; it must exceed the writes since the backup (default 1000000000)")
	c.Flags().DurationVar(&f.Hold, "hold", 0, "place no jobs for this time after the start (default the longest lost_after of any job; use less only after all nodes were restarted)")
	c.Flags().BoolVar(&f.Force, "force", false, "replace an existing store; the old one is kept under another name")
	c.Flags().BoolVar(&f.AsCopy, "as-copy", false, "make a second store beside the one of the backup: it leaves its federation and drops the jobs of a hub")
	f.output.AddOutput(c)
}

func (f *restoreFlags) check(file string) error {
	if f.Bump < 0 || f.Hold < 0 {
		return exit.Usagef("--revision-bump and --hold must be 0 or more")
	}
	f.File = file
	return nil
}

func (a *commands) restoreCommand() *cobra.Command {
	var f restoreFlags
	var m server.Member
	c := &cobra.Command{
		Use: "restore FILE", Short: "Restore a store from a backup while no server runs", Args: command.ExactArgs("FILE"),
		Long: `Create the embedded store of a data directory from a backup. Stop the server before you restore.
Jobs that ran at the time of the backup run again. The restore raises the store's revisions, so
that no fencing token is issued twice. After the restore, the first leader places no jobs for a
while (see --hold). The delay gives old processes enough time to end.

Use --as-copy to make a second store from the backup of a store that stays in use, for example for
a test. Two stores with the same identity would both run the jobs of a hub.

To restore an external etcd, first run "ares restore prepare" once. Then create every member from
the same prepared file, and start etcd with its usual flags.`,
		Example: `  ares restore ares.backup --data-dir restored
  ares restore prepare ares.backup ares.prepared --force
  ares restore ares.prepared --etcd-data-dir etcd-1 --name etcd-1 \
    --initial-cluster etcd-1=http://127.0.0.1:2380 --initial-advertise-peer-urls http://127.0.0.1:2380`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if m.Dir != "" {
				return a.restoreMember(cmd, args[0], m)
			}
			if err := f.check(args[0]); err != nil {
				return err
			}
			done, err := server.Restore(cmd.Context(), a.Dir(), f.Restoration)
			if err != nil {
				return err
			}
			return a.printRestored(&f, done, "Restored the store in "+a.Dir()+".")
		},
	}
	f.add(c)
	c.Flags().StringVar(&m.Dir, "etcd-data-dir", "", "create a member of an external etcd in this directory, from a prepared FILE")
	c.Flags().StringVar(&m.Name, "name", "default", "name of the member")
	c.Flags().StringVar(&m.InitialCluster, "initial-cluster", "", "NAME=PEER-URL of every member, separated by commas")
	c.Flags().StringSliceVar(&m.PeerURLs, "initial-advertise-peer-urls", nil, "peer URLs of this member")
	c.Flags().StringVar(&m.Token, "initial-cluster-token", "etcd-cluster", "token of the etcd cluster, the same for every member")
	c.AddCommand(a.restorePrepareCommand())
	return c
}

func (a *commands) restorePrepareCommand() *cobra.Command {
	var f restoreFlags
	c := &cobra.Command{
		Use: "prepare FILE OUT", Short: "Convert a backup so that an external etcd can be restored from it", Example: "  ares restore prepare ares.backup ares.prepared --force", Args: command.ExactArgs("FILE", "OUT"),
		Long: "Convert a backup so that an external etcd can be restored from it. Convert the backup only once, and\ncopy the prepared file to every member. Members that start from different files can never agree.",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.check(args[0]); err != nil {
				return err
			}
			done, err := server.PrepareRestore(cmd.Context(), args[1], f.Restoration)
			if err != nil {
				return err
			}
			return a.printRestored(&f, done, "Prepared "+args[1]+": create every member from it with \"ares restore "+args[1]+" --etcd-data-dir …\".")
		},
	}
	f.add(c)
	return c
}

// restoreMember creates the data of one member of an external etcd cluster from a backup.
func (a *commands) restoreMember(cmd *cobra.Command, file string, m server.Member) error {
	for _, name := range []string{"archive", "history", "revision-bump", "hold", "force", "as-copy"} {
		if cmd.Flags().Changed(name) {
			return exit.Usagef("use --%s with \"ares restore prepare\": it must be the same for every member", name)
		}
	}
	if m.InitialCluster == "" || len(m.PeerURLs) == 0 {
		return exit.Usagef("a member needs --initial-cluster and --initial-advertise-peer-urls, as in etcd")
	}
	if err := server.RestoreMember(file, m); err != nil {
		return err
	}
	output.Printf(a.Out, "Created member %s in %s.\n", output.Clean(m.Name), output.Clean(m.Dir))
	return nil
}

func (a *commands) printRestored(f *restoreFlags, done server.Restored, headline string) error {
	return a.PrintValue(f.output.Format, done, func(w io.Writer) {
		output.Printf(w, "%s\n", output.Clean(headline))
		output.Printf(w, "  revision         %d, was %d in the backup\n", done.Revision, done.Snapshot)
		output.Printf(w, "  jobs             %d continue; %d ended by the restore, %d by the archive or history\n", done.Jobs, done.Lost, done.Final)
		output.Printf(w, "  placements       start %s after a server becomes leader\n", done.Hold)
		switch {
		case f.AsCopy:
			output.Printf(w, "  federation       left; %d jobs of a hub were dropped\n", done.Granted)
		case done.Asks:
			output.Printf(w, "  federation       no job is granted until every cluster has answered or is declared dead\n")
		case done.Granted > 0:
			output.Printf(w, "  federation       %d jobs of a hub wait until the hub has confirmed them\n", done.Granted)
		}
		if done.Unread > 0 {
			output.Printf(w, "  archive          %d lines could not be read\n", done.Unread)
		}
		if done.Kept != "" {
			output.Printf(w, "  old store        %s\n", output.Clean(done.Kept))
		}
	})
}
