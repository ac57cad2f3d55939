package admin

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/cli/command"
	"github.com/ares-scheduler/ares/cli/exit"
	"github.com/ares-scheduler/ares/cli/output"
	"github.com/ares-scheduler/ares/client"
)

func (a *commands) priceCommand() *cobra.Command {
	return command.Group("price", "Manage prices of GPU-hours", "  ares price list",
		`A price applies from its first day until a later price for the same model and region replaces
it. If several prices match a GPU, the most specific one applies: the price whose model name is
longest. If two matching prices have the same model name, the price for the GPU's region
applies. Days are in UTC.`,
		a.priceListCommand(), a.priceSetCommand(), a.priceDeleteCommand())
}

func (a *commands) priceListCommand() *cobra.Command {
	var o output.Flags
	return o.AddList(&cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List past, current and future prices", Example: "  ares price list", Args: command.ExactArgs(),
		RunE: a.WithClient(func(ctx context.Context, c *client.Client, _ []string) error {
			return a.List(ctx, &o, func(ctx context.Context) (proto.Message, error) { return c.Prices(ctx) },
				func(m proto.Message) *output.Table { return a.priceTable(m.(*apipb.ListPricesResponse)) })
		}),
	})
}

func (a *commands) priceTable(list *apipb.ListPricesResponse) *output.Table {
	t := &output.Table{Head: []string{"MODEL", "REGION", "FROM", "PER GPU-HOUR", "SET BY"}, Empty: fmt.Sprintf("No prices. Set one with: %s price set 2.50 --gpu-model h100", a.Invocation()),
		Drop: []string{"SET BY", "REGION"}}
	for _, p := range list.GetPrices() {
		t.Add(cmp.Or(p.GetGpuModel(), "(any)"), cmp.Or(p.GetRegion(), "(any)"), p.GetFrom(), price(p), p.GetSetBy())
	}
	return t
}

func price(p *apipb.Price) string {
	return strconv.FormatFloat(p.GetPricePerGpuHour(), 'f', -1, 64) + " " + p.GetCurrency()
}

func (a *commands) priceSetCommand() *cobra.Command {
	var o output.Flags
	var p apipb.Price
	c := &cobra.Command{
		Use: "set PRICE", Short: "Set the price of a GPU-hour, valid from a given day", Example: "  ares price set 2.50 --gpu-model h100", Args: command.ExactArgs("PRICE"),
		RunE: a.WithClient(func(ctx context.Context, c *client.Client, args []string) error {
			amount, err := strconv.ParseFloat(args[0], 64)
			if err != nil || !(amount >= 0) || math.IsInf(amount, 0) {
				return notAPrice(args[0])
			}
			if err = dayFlag("from", p.GetFrom()); err != nil {
				return err
			}
			p.PricePerGpuHour = amount
			set, err := c.SetPrice(ctx, &p)
			if err != nil {
				return err
			}
			return a.Print(&o, set, func(w io.Writer, _ proto.Message) {
				output.Printf(w, "%s for %s in %s from %s on\n", output.Clean(price(set)), output.Clean(cmp.Or(set.GetGpuModel(), "all models")),
					output.Clean(cmp.Or(set.GetRegion(), "all regions")), output.Clean(set.GetFrom()))
			})
		}),
	}
	c.Flags().StringVar(&p.GpuModel, "gpu-model", "", "GPUs with this text in their model name (default all)")
	c.Flags().StringVar(&p.Region, "region", "", "in this region (default all)")
	c.Flags().StringVar(&p.From, "from", "", "the first day, such as 2026-01-31 (default today)")
	c.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		if text := command.NegativeNumber(err); text != "" {
			return notAPrice(text)
		}
		return command.FlagError(c, err)
	})
	o.AddOutput(c)
	return c
}

func notAPrice(text string) error {
	return exit.Usagef("%q is not a price: use a number of 0 or more, such as 2.50", text)
}

func (a *commands) priceDeleteCommand() *cobra.Command {
	var model, region, from string
	c := &cobra.Command{
		Use: "delete", Short: "Delete a price; the previous price applies again", Example: `  ares price delete --gpu-model h100 --from "$(date -u +%F)"`, Args: command.ExactArgs(),
		RunE: a.WithClient(func(ctx context.Context, c *client.Client, _ []string) error {
			if from == "" {
				return exit.Usagef("--from is missing: use the day that \"ares price list\" shows")
			}
			if err := dayFlag("from", from); err != nil {
				return err
			}
			if err := c.DeletePrice(ctx, model, region, from); err != nil {
				return err
			}
			output.Printf(a.Out, "deleted\n")
			return nil
		}),
	}
	c.Flags().StringVar(&model, "gpu-model", "", "the price's model")
	c.Flags().StringVar(&region, "region", "", "the price's region")
	c.Flags().StringVar(&from, "from", "", "the price's first day")
	return c
}

func dayFlag(flag, day string) error {
	if _, err := time.Parse(time.DateOnly, day); day != "" && err != nil {
		return exit.Usagef("--%s %s: use a day such as 2026-01-31", flag, day)
	}
	return nil
}
