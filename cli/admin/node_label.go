package admin

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"google.golang.org/protobuf/proto"

	"github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/cli/command"
	"github.com/ares-scheduler/ares/cli/exit"
	"github.com/ares-scheduler/ares/cli/output"
	"github.com/ares-scheduler/ares/client"
)

func (a *commands) nodeLabelCommand() *cobra.Command {
	var o output.Flags
	c := &cobra.Command{
		Use: "label NODE [NAME=VALUE | NAME-]...", Short: "Set or remove a node's labels", Args: command.MinOneArg("NODE"),
		Example: "  ares node label gpu-1 ares.io/pool=prod",
		Long: `Set labels with NAME=VALUE and remove them with NAME-. Without labels, show what the node is granted.

Only administrators can give a node a label whose name begins with ` + ares.ReservedLabelPrefix + `, either with this
command or with "ares node token create --label". A node that claims such a label without having it
is refused. Use these labels to select nodes that must be trusted. Other labels that are set here win
over those that the node's agent reports.`,
		RunE: a.WithClient(func(ctx context.Context, c *client.Client, args []string) error {
			set, remove, err := readLabels(args[1:])
			if err != nil {
				return err
			}
			grant, err := c.LabelNode(ctx, args[0], set, remove)
			if err != nil {
				return err
			}
			answer := &apipb.LabelNodeResponse{Grant: grant}
			return a.Print(&o, answer, func(w io.Writer, _ proto.Message) {
				output.Printf(w, "%s: %s\n", output.Clean(args[0]), output.Clean(grantText(grant)))
			})
		}),
	}
	o.AddOutput(c)
	return c
}

// readLabels reads labels to set, such as pool=prod, and labels to remove, such as pool-.
func readLabels(args []string) (set map[string]string, remove []string, err error) {
	for _, arg := range args {
		if name, ok := strings.CutSuffix(arg, "-"); ok && !strings.Contains(arg, "=") && name != "" {
			remove = append(remove, name)
			continue
		}
		if err := command.AssignPairs(&set, "label", []string{arg}); err != nil {
			return nil, nil, exit.Usagef("label %q: use NAME=VALUE to set a label, or NAME- to remove one", arg)
		}
	}
	return set, remove, nil
}

// grantText describes what a node is granted.
func grantText(g *apipb.NodeGrant) string {
	var parts []string
	if len(g.GetLabels()) > 0 {
		parts = append(parts, output.Pairs(g.GetLabels()))
	}
	for _, limit := range []struct {
		value int32
		unit  string
	}{{g.GetMaxGpus(), "GPUs"}, {g.GetMaxCpuCores(), "CPU cores"}, {g.GetMaxMemoryMb(), "MB"}} {
		if limit.value > 0 {
			parts = append(parts, fmt.Sprintf("at most %d %s", limit.value, limit.unit))
		}
	}
	if model := g.GetGpuModel(); model != "" {
		parts = append(parts, "only model "+model)
	}
	if len(parts) == 0 {
		return "no granted labels and no limits"
	}
	return strings.Join(parts, ", ")
}

// grantFlags are the flags that say what a joining node may be.
type grantFlags struct {
	labels                 []string
	model                  string
	gpus, cpus, memoryInMB int32
}

func (f *grantFlags) add(flags *pflag.FlagSet) {
	flags.StringArrayVar(&f.labels, "label", nil, "label of the node, NAME=VALUE, which its agent cannot change; may be repeated")
	flags.Int32Var(&f.gpus, "max-gpus", 0, "refuse the node if it offers more GPUs (default no limit)")
	flags.StringVar(&f.model, "gpu-model", "", "refuse the node if it offers GPUs of another model")
	flags.Int32Var(&f.cpus, "max-cpus", 0, "refuse the node if it offers more CPU cores (default no limit)")
	flags.Int32Var(&f.memoryInMB, "max-memory-mb", 0, "refuse the node if it offers more memory (default no limit)")
}

// The method `grant` returns what the flags say, or nil if they say nothing.
func (f *grantFlags) grant() (*apipb.NodeGrant, error) {
	g := &apipb.NodeGrant{GpuModel: f.model, MaxGpus: f.gpus, MaxCpuCores: f.cpus, MaxMemoryMb: f.memoryInMB}
	if err := command.AssignPairs(&g.Labels, "--label", f.labels); err != nil {
		return nil, err
	}
	if min(f.gpus, f.cpus, f.memoryInMB) < 0 {
		return nil, exit.Usagef("--max-gpus, --max-cpus and --max-memory-mb must not be negative")
	}
	if g.Grant().IsZero() {
		return nil, nil
	}
	return g, nil
}
