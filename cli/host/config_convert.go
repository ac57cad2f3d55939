package host

import (
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/ares-scheduler/ares/cli/command"
	"github.com/ares-scheduler/ares/cli/output"
	"github.com/ares-scheduler/ares/server"
)

func (a *commands) configConvertCommand() *cobra.Command {
	return &cobra.Command{
		Use: "convert [FILE]", Short: "Convert a gpu-scheduler configuration to Ares", Args: command.MaxOneArg,
		Long: `Convert a scheduler-config.yaml file of gpu-scheduler to an Ares configuration. Use "-" as FILE
to read standard input. The GPU_SCHEDULER_* environment variables override the file. Settings
that Ares ignores are listed on standard error. The keys of the section database
become history.url.

A server also reads such a file directly with --config. Convert the file if you want to add keys
of Ares.`,
		Example: "  ares config convert scheduler-config.yaml > ares.yaml",
		RunE: func(_ *cobra.Command, args []string) error {
			var file []byte
			if len(args) == 1 {
				data, err := a.ReadFile(args[0])
				if err != nil {
					return err
				}
				file = data
			}
			out, notes, err := server.ConvertConfig(file, os.Environ())
			if err != nil {
				return err
			}
			for _, note := range notes {
				output.Printf(a.Err, "ares: %s\n", output.Clean(note))
			}
			return a.Buffered(func(w io.Writer) { output.Printf(w, "%s", out) })
		},
	}
}
