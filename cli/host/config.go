package host

import (
	"cmp"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/ares-scheduler/ares/cli/command"
	"github.com/ares-scheduler/ares/cli/output"
	"github.com/ares-scheduler/ares/server"
)

func (a *commands) configCommand() *cobra.Command {
	return command.Group("config", "Check, print and convert configuration files", "  ares config default", "",
		a.configCheckCommand(), a.configDefaultCommand(), a.configConvertCommand())
}

func (a *commands) configCheckCommand() *cobra.Command {
	return &cobra.Command{
		Use: "check [FILE]", Short: "Check a configuration file and the environment", Example: `  ares config default > ares.yaml
  ares config check ares.yaml`, Args: command.MaxOneArg,
		RunE: func(_ *cobra.Command, args []string) error {
			path := ""
			if len(args) == 1 {
				path = args[0]
			}
			cfg, err := server.Load(path, os.Environ())
			if err != nil {
				return err
			}
			if err = cfg.Check(); err != nil {
				return err
			}
			for _, notice := range cfg.Notices() {
				output.Printf(a.Err, "ares: %s\n", output.Clean(notice))
			}
			output.Printf(a.Out, "%s is valid\n", cmp.Or(path, "the environment"))
			return nil
		},
	}
}

func (a *commands) configDefaultCommand() *cobra.Command {
	return &cobra.Command{
		Use: "default", Short: "Print the default configuration", Example: "  ares config default > ares.yaml", Args: command.ExactArgs(),
		RunE: func(*cobra.Command, []string) error {
			text, err := server.Default().YAML()
			if err != nil {
				return err
			}
			return a.Buffered(func(w io.Writer) { output.Printf(w, "%s", text) })
		},
	}
}
