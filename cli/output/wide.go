package output

import "github.com/spf13/cobra"

// AddWide lets a command accept -o wide, which is a table with everything that Ares knows. Without it, a table has what
// users need. AddWide is called after Add or AddOutput.
func (o *Flags) AddWide(c *cobra.Command) *cobra.Command {
	c.Flags().Lookup("output").Usage = "table, wide, json or yaml"
	before := c.Args
	c.Args = func(c *cobra.Command, args []string) error {
		if o.Format == "wide" {
			o.Format, o.Wide = "table", true
		}
		return before(c, args)
	}
	return c
}
