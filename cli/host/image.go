package host

import (
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/agent/image"
	"github.com/ares-scheduler/ares/cli/command"
	"github.com/ares-scheduler/ares/cli/output"
)

const imageLong = `List, pull and remove the images of this node. The commands connect to the agent on this machine, and only
the agent's own user may do that. Give the agent's --data-dir.`

func (a *commands) imageCommand() *cobra.Command {
	return command.Group("image", "Show and manage the images of this node", "  ares image list", imageLong,
		a.imageListCommand(), a.imagePullCommand(), a.imageRemoveCommand())
}

// The method `images` reaches the images of the agent that uses the data directory.
func (a *commands) images() image.Local { return image.Local{Dir: a.Dir() + "/agent"} }

func (a *commands) imageListCommand() *cobra.Command {
	var o output.Flags
	var tenant string
	c := &cobra.Command{
		Use: "list", Short: "List the images of this node", Args: command.ExactArgs(), Example: "  ares image list --of research",
		Long: "List the images of this node, one for each tenant that has pulled it. Images share layers, so their sizes add up to more\nthan the disk space that they take.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			list, err := a.images().List(cmd.Context(), tenant)
			if err != nil {
				return err
			}
			t := &output.Table{Head: []string{"IMAGE", "DIGEST", "TENANT", "LAYERS", "MB", "USED", "IN USE"}, Empty: "No images. Jobs with an image pull it, and so does \"ares image pull\"."}
			for _, i := range list {
				inUse := "no"
				if i.InUse {
					inUse = "yes"
				}
				t.Add(i.Reference, i.Digest[:min(len(i.Digest), len("sha256:")+12)], i.Tenant, strconv.Itoa(i.Layers), strconv.FormatInt(i.Bytes>>20, 10), i.Used.UTC().Format(time.DateTime), inUse)
			}
			return a.PrintListValue(&o, map[string]any{"images": list}, t)
		},
	}
	c.Flags().StringVar(&tenant, "of", "", "only the images of this tenant")
	return o.AddRows(c)
}

func (a *commands) imagePullCommand() *cobra.Command {
	var tenant string
	c := &cobra.Command{
		Use: "pull IMAGE", Short: "Pull an image to this node", Args: command.ExactArgs("IMAGE"), Example: "  ares image pull docker.io/library/python:3.12",
		Long: "Pull an image to this node, so that jobs need not wait for it. The tenant's credentials on this node are used.",
		RunE: func(cmd *cobra.Command, args []string) error {
			digest, err := a.images().Pull(cmd.Context(), tenant, args[0], func(p image.Progress) {
				const mb = 1 << 20
				output.Printf(a.Err, "%d of %d layers, %d of %d MB\n", p.Layers, p.OfLayers, p.Bytes/mb, p.OfBytes/mb)
			})
			if err == nil {
				output.Printf(a.Out, "%s\n", output.Clean(digest))
			}
			return err
		},
	}
	c.Flags().StringVar(&tenant, "for", ares.DefaultTenant, "tenant for which the image is pulled, with its credentials")
	return c
}

func (a *commands) imageRemoveCommand() *cobra.Command {
	var tenant string
	c := &cobra.Command{
		Use: "remove IMAGE", Short: "Remove an image from this node", Args: command.ExactArgs("IMAGE"), Example: "  ares image remove sha256:4f53cda18c2b",
		Long: "Remove an image from this node. IMAGE is a reference, or at least 12 digits of a digest. Layers that other images or running\njobs use stay; those of running jobs are removed when the disk becomes full.",
		RunE: func(cmd *cobra.Command, args []string) error {
			bytes, err := a.images().Remove(cmd.Context(), tenant, args[0])
			if err == nil {
				output.Printf(a.Out, "%s\n", fmt.Sprintf("removed %s, which frees %d MB", output.Clean(args[0]), bytes>>20))
			}
			return err
		},
	}
	c.Flags().StringVar(&tenant, "of", "", "remove only the image of this tenant")
	return c
}
