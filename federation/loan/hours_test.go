package loan_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/ares-scheduler/ares/federation/loan"
)

const (
	hour  = 3600
	month = 30 * 24 * time.Hour
)

func drawSpenders(t *rapid.T) []loan.Spender {
	out := make([]loan.Spender, rapid.IntRange(1, 5).Draw(t, "clusters"))
	for i := range out {
		s := &out[i]
		s.Name = fmt.Sprintf("c%d", i)
		s.Devices = rapid.IntRange(0, 32).Draw(t, "devices")
		s.Running = rapid.IntRange(0, s.Devices).Draw(t, "running")
		s.Loan = rapid.IntRange(0, 50*hour).Draw(t, "loan")
		s.Used = rapid.IntRange(0, 60*hour).Draw(t, "used")
		s.Fixed, s.Closed = rapid.IntRange(0, 4).Draw(t, "fixed") == 0, rapid.IntRange(0, 4).Draw(t, "closed") == 0
	}
	return out
}

func drawHourWants(t *rapid.T, spenders []loan.Spender) []loan.Want {
	var names []loan.Cluster
	for i := range spenders {
		names = append(names, loan.Cluster{Name: spenders[i].Name})
	}
	return drawWants(t, names)
}

// TestBudget checks that the loans never exceed the budget together, that no cluster loses what it has used of its loan, and that
// a fixed loan stays.
func TestBudget(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spenders := drawSpenders(t)
		budget := rapid.IntRange(0, 150*hour).Draw(t, "budget")
		got := loan.DivideHours(budget, spenders, drawHourWants(t, spenders), month, noon)
		floor := 0
		for i, s := range spenders {
			switch {
			case s.Fixed && got[i] != s.Loan:
				t.Fatalf("the fixed loan of %s became %d: %+v", s.Name, got[i], s)
			case got[i] < min(s.Used, s.Loan):
				t.Fatalf("the loan of %s became %d, less than it has used: %+v", s.Name, got[i], s)
			case s.Fixed:
				floor += s.Loan
			default:
				floor += min(s.Used+hour*s.Running, s.Loan)
			}
		}
		if sum(got) > max(budget, floor) {
			t.Fatalf("%v is more than the budget %d: %+v", got, budget, spenders)
		}
		for i, s := range spenders {
			if floor >= budget && got[i] > s.Loan {
				t.Fatalf("the budget %d is exceeded, and %s gets %d: %+v", budget, s.Name, got[i], s)
			}
		}
	})
}

// TestOneMonth lets clusters use a budget over a month: jobs start and end, and a cluster starts none when its loan is used up.
// The loans must never exceed the budget. They must follow the jobs without a change at each step: all that is left can be used
// wherever the jobs are.
func TestOneMonth(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spenders := drawSpenders(t)
		for i := range spenders {
			s := &spenders[i]
			s.Loan, s.Used, s.Running, s.Fixed, s.Closed = 0, 0, 0, false, false
			s.Devices++
		}
		budget := rapid.IntRange(1, 2000).Draw(t, "hours") * hour
		const step, steps = 60, 2000
		only := rapid.IntRange(0, len(spenders)-1).Draw(t, "the cluster with jobs at the end")
		changes, switches := 0, 0
		for at := range steps {
			if at%200 == 0 {
				for i := range spenders { // the jobs of this time
					spenders[i].Running = rapid.IntRange(0, spenders[i].Devices).Draw(t, "running")
					if at >= steps/2 {
						spenders[i].Running = 0
					}
				}
				switches++
			}
			var wants []loan.Want
			if at >= steps/2 {
				wants = append(wants, loan.Want{ID: "job", Clusters: []string{spenders[only].Name}, GPUs: spenders[only].Devices, Since: noon})
			}
			got := loan.DivideHours(budget, spenders, wants, month-time.Duration(at*step)*time.Second, noon)
			if sum(got) > budget {
				t.Fatalf("%v is more than %d", got, budget)
			}
			for i := range spenders {
				s := &spenders[i]
				if got[i] != s.Loan {
					changes++
				}
				s.Loan = got[i]
				use := s.Running
				if at >= steps/2 && i == only {
					use = s.Devices
				}
				if s.Used < s.Loan {
					s.Used += use * step
				}
			}
		}
		used, most := 0, 0
		for i := range spenders {
			used, most = used+spenders[i].Used, max(most, spenders[i].Devices)
		}
		if used < budget && spenders[only].Used >= spenders[only].Loan {
			t.Errorf("%d of %d were used, and the jobs in %s wait: %+v", used, budget, spenders[only].Name, spenders)
		}
		// A loan is refilled at most twice in an hour of full use, and at the changes of the jobs.
		if limit := len(spenders) * (2*steps*step/hour + 20*switches); changes > limit {
			t.Errorf("%d changes of loans, want at most %d", changes, limit)
		}
	})
}

func TestDivideHours(t *testing.T) {
	idle := func(name string, lent, used int) loan.Spender {
		return loan.Spender{Name: name, Loan: lent, Used: used, Devices: 8}
	}
	busy := func(name string, lent, used int) loan.Spender {
		return loan.Spender{Name: name, Loan: lent, Used: used, Devices: 8, Running: 2}
	}
	silent := loan.Spender{Name: "a", Loan: 60 * hour, Used: 10 * hour, Devices: 8, Fixed: true}
	inB := []loan.Want{{Clusters: []string{"b"}, GPUs: 4, Since: noon}}
	for _, c := range []struct {
		name     string
		budget   int
		spenders []loan.Spender
		wants    []loan.Want
		left     time.Duration
		want     []int
	}{
		{"what nobody has is divided", 100 * hour, []loan.Spender{idle("a", 0, 0), idle("b", 0, 0)}, nil, month, []int{50 * hour, 50 * hour}},
		{"not more than the devices can use", 100 * hour, []loan.Spender{idle("a", 0, 0), idle("b", 0, 0)}, nil, 2 * time.Hour, []int{16 * hour, 16 * hour}},
		{"what is not used stays", 100 * hour, []loan.Spender{idle("a", 100*hour, 10*hour), idle("b", 0, 0)}, nil, month, []int{100 * hour, 0}},
		{"a job moves it", 100 * hour, []loan.Spender{idle("a", 100*hour, 10*hour), idle("b", 0, 0)}, inB, month, []int{96 * hour, 4 * hour}},
		{"a half is enough", 100 * hour, []loan.Spender{idle("a", 98*hour, 10*hour), idle("b", 2*hour, 0)}, inB, month, []int{98 * hour, 2 * hour}},
		{"what is used does not move", 100 * hour, []loan.Spender{idle("a", 99*hour, 97*hour), idle("b", hour, hour)}, inB, month, []int{97 * hour, 3 * hour}},
		{"running jobs come before waiting ones", 100 * hour, []loan.Spender{busy("a", 99*hour, 97*hour), idle("b", hour, hour)}, inB, month, []int{99 * hour, hour}},
		{"the use of running jobs above the loan", 100 * hour, []loan.Spender{busy("a", 50*hour, 53*hour), idle("b", 50*hour, 0)}, nil, month, []int{55 * hour, 45 * hour}},
		{"a silent cluster keeps its loan", 100 * hour, []loan.Spender{silent, idle("b", 40*hour, 40*hour)}, inB, month, []int{60 * hour, 40 * hour}},
		{"a lower budget", 40 * hour, []loan.Spender{idle("a", 60*hour, 30*hour), idle("b", 40*hour, 0)}, nil, month, []int{35 * hour, 5 * hour}},
		{"a new month", 100 * hour, []loan.Spender{idle("a", 60*hour, 0), idle("b", 40*hour, 0)}, inB, month, []int{60 * hour, 40 * hour}},
	} {
		if got := loan.DivideHours(c.budget, c.spenders, c.wants, c.left, noon); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}
