package cli

import (
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/ares-scheduler/ares/server"
)

func (a *app) configCommand() *cobra.Command {
	return group("config", "Check, show and convert the configuration file", "",
		a.configCheckCommand(), a.configDefaultCommand(), a.configConvertCommand())
}

func (a *app) configCheckCommand() *cobra.Command {
	return &cobra.Command{
		Use: "check [FILE]", Short: "Report every mistake of a configuration file and the environment", Args: atMostOne,
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
			say(a.out, "%s is fine\n", firstOf(path, "the environment"))
			return nil
		},
	}
}

func (a *app) configDefaultCommand() *cobra.Command {
	return &cobra.Command{
		Use: "default", Short: "Print the default configuration", Args: exactly(),
		RunE: func(*cobra.Command, []string) error {
			text, err := server.Default().YAML()
			if err != nil {
				return err
			}
			return a.buffered(func(w io.Writer) { say(w, "%s", text) })
		},
	}
}
