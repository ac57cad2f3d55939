package cli

import (
	"context"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/ares-scheduler/ares/client"
	"github.com/ares-scheduler/ares/server"
)

func (a *app) backupCommand() *cobra.Command {
	var o readFlags
	var force bool
	c := &cobra.Command{
		Use: "backup FILE", Short: "Write a backup of the running store", Args: exactly("FILE"),
		Long: `Writes a backup of the store that a running server uses, embedded or external. It
holds everything that was acknowledged before. The file is there whole or not at
all, and only its owner may read it: it holds what jobs were given, too.

Back the servers' archive.jsonl files up beside it: they tell which jobs had ended.`,
		Example: "  ares backup ares-$(date +%F).backup",
		RunE: a.with(func(ctx context.Context, c *client.Client, args []string) error {
			began, size := a.now(), int64(0)
			err := server.WriteWhole(args[0], force, func(w io.Writer) (err error) {
				size, err = c.Backup(ctx, w)
				return err
			})
			if err != nil {
				return err
			}
			return a.printValue(o.output, map[string]any{"file": args[0], "bytes": size}, func(w io.Writer) {
				say(w, "%s: %d bytes in %s, checked\n", clean(args[0]), size, a.now().Sub(began).Round(time.Millisecond))
			})
		}),
	}
	c.Flags().BoolVar(&force, "force", false, "replace FILE if it exists")
	o.addOutput(c)
	return c
}

// restoreFlags are the flags of a restore that changes what is in a backup.
type restoreFlags struct {
	server.Restoration

	output readFlags
}

func (f *restoreFlags) add(c *cobra.Command) {
	c.Flags().StringArrayVar(&f.Archives, "archive", nil, "archive.jsonl of a server: jobs that it shows as ended stay ended; may be repeated")
	c.Flags().StringVar(&f.History, "history", "", "URL or file of the history: jobs that it shows as ended stay ended (default history.db of the data directory, if it is there)")
	c.Flags().Int64Var(&f.Bump, "revision-bump", 0, "raise revisions by this many, more than were written since the backup (default 1000000000)")
	c.Flags().DurationVar(&f.Hold, "hold", 0, "place nothing for so long after the start (default the longest lost_after of any job; shorter only when every node was restarted since)")
	c.Flags().BoolVar(&f.Force, "force", false, "replace what is there; a store is moved aside and kept")
	f.output.addOutput(c)
}

func (f *restoreFlags) check(file string) error {
	if f.Bump < 0 || f.Hold < 0 {
		return usagef("--revision-bump and --hold may not be negative")
	}
	f.File = file
	return nil
}

func (a *app) restoreCommand() *cobra.Command {
	var f restoreFlags
	var m server.Member
	c := &cobra.Command{
		Use: "restore FILE", Short: "Make a store from a backup, while no server runs", Args: exactly("FILE"),
		Long: `Makes the embedded store of a data directory from a backup. No server may be running
on it. What was under way when the backup was taken is ended and run again, revisions
are raised so that no fencing token is ever given out twice, and the first leader
places nothing until all that was started before must be dead.

For an external etcd, prepare the backup once and make every member from the same
prepared file; then start etcd with the usual flags.`,
		Example: `  ares restore ares.backup --data-dir /var/lib/ares --archive /var/lib/ares/archive.jsonl

  ares restore prepare ares.backup ares.prepared --archive archive.jsonl
  ares restore ares.prepared --etcd-data-dir /var/lib/etcd --name etcd-1 \
    --initial-cluster etcd-1=https://10.0.0.1:2380,etcd-2=https://10.0.0.2:2380,etcd-3=https://10.0.0.3:2380 \
    --initial-advertise-peer-urls https://10.0.0.1:2380`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if m.Dir != "" {
				return a.restoreMember(cmd, args[0], m)
			}
			if err := f.check(args[0]); err != nil {
				return err
			}
			done, err := server.Restore(cmd.Context(), a.dir(), f.Restoration)
			if err != nil {
				return err
			}
			return a.printRestored(&f, done, "Restored the store in "+a.dir()+".")
		},
	}
	f.add(c)
	c.Flags().StringVar(&m.Dir, "etcd-data-dir", "", "make a member of an external etcd here, from a prepared FILE")
	c.Flags().StringVar(&m.Name, "name", "default", "name of the member")
	c.Flags().StringVar(&m.InitialCluster, "initial-cluster", "", "NAME=PEER-URL of every member, separated by commas")
	c.Flags().StringSliceVar(&m.PeerURLs, "initial-advertise-peer-urls", nil, "peer URLs of this member")
	c.Flags().StringVar(&m.Token, "initial-cluster-token", "etcd-cluster", "token of the etcd cluster, the same for every member")
	c.AddCommand(a.restorePrepareCommand())
	return c
}

func (a *app) restorePrepareCommand() *cobra.Command {
	var f restoreFlags
	c := &cobra.Command{
		Use: "prepare FILE OUT", Short: "Make the file that every member of an external etcd is restored from", Args: exactly("FILE", "OUT"),
		Long: "Restores a backup into another file. Make it once and copy it to every member: members\nthat begin with different files would never agree.",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.check(args[0]); err != nil {
				return err
			}
			done, err := server.PrepareRestore(cmd.Context(), args[1], f.Restoration)
			if err != nil {
				return err
			}
			return a.printRestored(&f, done, "Prepared "+args[1]+": now make every member from it with \"ares restore "+args[1]+" --etcd-data-dir …\".")
		},
	}
	f.add(c)
	return c
}

// restoreMember makes one member of an external etcd.
func (a *app) restoreMember(cmd *cobra.Command, file string, m server.Member) error {
	for _, name := range []string{"archive", "history", "revision-bump", "hold", "force"} {
		if cmd.Flags().Changed(name) {
			return usagef("--%s goes to \"ares restore prepare\": what it changes must be the same for every member", name)
		}
	}
	if m.InitialCluster == "" || len(m.PeerURLs) == 0 {
		return usagef("a member needs --initial-cluster and --initial-advertise-peer-urls, as etcd itself does")
	}
	if err := server.RestoreMember(file, m); err != nil {
		return err
	}
	say(a.out, "Made member %s in %s.\n", clean(m.Name), clean(m.Dir))
	return nil
}

func (a *app) printRestored(f *restoreFlags, done server.Restored, headline string) error {
	return a.printValue(f.output.output, done, func(w io.Writer) {
		say(w, "%s\n", clean(headline))
		say(w, "  revision         %d, was %d in the backup\n", done.Revision, done.Snapshot)
		say(w, "  jobs             %d go on; %d ended by the restore, %d by the archive or history\n", done.Jobs, done.Lost, done.Final)
		say(w, "  placements       begin %s after a server leads\n", done.Hold)
		if done.Unread > 0 {
			say(w, "  archive          %d lines could not be read\n", done.Unread)
		}
		if done.Kept != "" {
			say(w, "  old store        %s\n", clean(done.Kept))
		}
	})
}
