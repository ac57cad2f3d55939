package cli

import (
	"context"
	"io"
	"math"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/client"
)

func (a *app) priceCommand() *cobra.Command {
	return group("price", "Say what an hour of a GPU costs",
		`A price counts from a day on, until another of the same model and region follows. Of
those that fit a GPU, the one with the longest part of its model's name counts, then
one for its very region. Days are in UTC.`,
		a.priceListCommand(), a.priceSetCommand(), a.priceDeleteCommand())
}

func (a *app) priceListCommand() *cobra.Command {
	var o readFlags
	return o.add(&cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List the prices, past and coming ones too", Args: exactly(),
		RunE: a.with(func(ctx context.Context, c *client.Client, _ []string) error {
			return a.show(ctx, &o, func(ctx context.Context) (proto.Message, error) { return c.Prices(ctx) },
				func(w io.Writer, m proto.Message) { a.writePrices(w, m.(*apipb.ListPricesResponse)) })
		}),
	})
}

func (a *app) writePrices(w io.Writer, list *apipb.ListPricesResponse) {
	if len(list.GetPrices()) == 0 {
		say(w, "No prices. Set one with: %s price set 2.50 --gpu-model h100\n", a.again())
		return
	}
	t := table{head: []string{"MODEL", "REGION", "FROM", "PER GPU-HOUR", "SET BY"}}
	for _, p := range list.GetPrices() {
		t.add(firstOf(p.GetGpuModel(), "(any)"), firstOf(p.GetRegion(), "(any)"), p.GetFrom(), price(p), p.GetSetBy())
	}
	t.write(w, a.color)
}

func price(p *apipb.Price) string {
	return strconv.FormatFloat(p.GetPricePerGpuHour(), 'f', -1, 64) + " " + p.GetCurrency()
}

func (a *app) priceSetCommand() *cobra.Command {
	var o readFlags
	var p apipb.Price
	c := &cobra.Command{
		Use: "set PRICE", Short: "Set what an hour of a GPU costs from a day on", Args: exactly("PRICE"),
		RunE: a.with(func(ctx context.Context, c *client.Client, args []string) error {
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
			return a.print(&o, set, func(w io.Writer, _ proto.Message) {
				say(w, "%s for %s in %s from %s on\n", clean(price(set)), clean(firstOf(set.GetGpuModel(), "all models")),
					clean(firstOf(set.GetRegion(), "all regions")), clean(set.GetFrom()))
			})
		}),
	}
	c.Flags().StringVar(&p.GpuModel, "gpu-model", "", "of GPUs whose model's name contains this (default all)")
	c.Flags().StringVar(&p.Region, "region", "", "in this region (default all)")
	c.Flags().StringVar(&p.From, "from", "", "the first day, such as 2026-01-31 (default today)")
	c.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		if text := negative(err); text != "" {
			return notAPrice(text)
		}
		return flagError(c, err)
	})
	o.addOutput(c)
	return c
}

func notAPrice(text string) error {
	return usagef("%q is not a price: write a number from 0 on, such as 2.50", text)
}

func (a *app) priceDeleteCommand() *cobra.Command {
	var model, region, from string
	c := &cobra.Command{
		Use: "delete", Short: "Remove a price: the one before it counts again", Args: exactly(),
		RunE: a.with(func(ctx context.Context, c *client.Client, _ []string) error {
			if from == "" {
				return usagef("--from: name the day of the price, as `ares price list` shows it")
			}
			if err := dayFlag("from", from); err != nil {
				return err
			}
			if err := c.DeletePrice(ctx, model, region, from); err != nil {
				return err
			}
			say(a.out, "deleted\n")
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
		return usagef("--%s %s: write a day as 2026-01-31", flag, day)
	}
	return nil
}
