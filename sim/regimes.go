package sim

// The variable `regimes` lists every regime. For each load, two of the learnable regimes and one of the others are
// for tuning, and as many are judged. Both halves have the same kinds of sizes, runtimes, arrivals and users, in
// other combinations. A limit of an unlearnable regime is drawn after the shuffle, and "wrong" limits say
// something about the runtime, so these regimes have none, or equal ones.
var regimes = []Regime{
	// Load 0.5.
	{Name: "philly-64-l0.5", Load: 0.5, Learnable: true, Jobs: 4000, fleet: "8x8", sizes: "philly", runs: "philly", arrivals: "philly", users: "regular", limits: limitsNone},
	{Name: "train-training-sweeps-256-l0.5", Load: 0.5, Learnable: true, Judged: true, Jobs: 2500, fleet: "32x8", sizes: "train", runs: "training", arrivals: "sweeps", users: "mixed", limits: limitsNone},
	{Name: "gangs-batch-flood-256-l0.5", Load: 0.5, Learnable: true, Jobs: 3000, fleet: "32x8", sizes: "gangs", runs: "batch", arrivals: "flood", users: "mixed", limits: limitsWrong},
	{Name: "small-heavy-philly-64-l0.5", Load: 0.5, Learnable: true, Judged: true, Jobs: 4000, fleet: "16x4", sizes: "small", runs: "heavy", arrivals: "philly", users: "regular", limits: limitsWrong},
	{Name: "train-training-philly-256-l0.5-shuffled", Load: 0.5, Jobs: 2500, fleet: "32x8", sizes: "train", runs: "training", arrivals: "philly", users: "mixed", limits: limitsNone},
	{Name: "philly-flood-64-l0.5-shuffled", Load: 0.5, Judged: true, Jobs: 4000, fleet: "8x8", sizes: "philly", runs: "philly", arrivals: "flood", users: "churn", limits: limitsEqual},
	// Load 0.7.
	{Name: "train-philly-sweeps-256-l0.7", Load: 0.7, Learnable: true, Jobs: 2500, fleet: "32x8", sizes: "train", runs: "philly", arrivals: "sweeps", users: "mixed", limits: limitsWrong},
	{Name: "philly-64-l0.7", Load: 0.7, Learnable: true, Judged: true, Jobs: 5000, fleet: "8x8", sizes: "philly", runs: "philly", arrivals: "philly", users: "noisy", limits: limitsNone},
	{Name: "small-heavy-weekly-64-l0.7", Load: 0.7, Learnable: true, Jobs: 4000, fleet: "16x4", sizes: "small", runs: "heavy", arrivals: "weekly", users: "churn", limits: limitsNone},
	{Name: "wide-training-philly-512-l0.7", Load: 0.7, Learnable: true, Judged: true, Jobs: 3000, fleet: "64x8", sizes: "wide", runs: "training", arrivals: "philly", users: "regular", limits: limitsNone, tenants: 3},
	{Name: "openb-batch-flood-64-l0.7-shuffled", Load: 0.7, Jobs: 5000, fleet: "8x8", sizes: "openb", runs: "batch", arrivals: "flood", users: "regular", limits: limitsNone},
	{Name: "gangs-bimodal-sweeps-256-l0.7-shuffled", Load: 0.7, Judged: true, Jobs: 3000, fleet: "32x8", sizes: "gangs", runs: "bimodal", arrivals: "sweeps", users: "mixed", limits: limitsNone},
	// Load 0.9.
	{Name: "wide-training-daily-512-l0.9", Load: 0.9, Learnable: true, Jobs: 3000, fleet: "64x8", sizes: "wide", runs: "training", arrivals: "daily", users: "regular", limits: limitsNone},
	{Name: "odd-training-weekly-192-l0.9", Load: 0.9, Learnable: true, Judged: true, Jobs: 3000, fleet: "16x8+16x4", sizes: "odd", runs: "training", arrivals: "weekly", users: "drift", limits: limitsWrong},
	{Name: "openb-philly-philly-64-l0.9", Load: 0.9, Learnable: true, Jobs: 5000, fleet: "8x8", sizes: "openb", runs: "philly", arrivals: "philly", users: "noisy", limits: limitsNone, tenants: 3},
	{Name: "openb-batch-sweeps-64-l0.9", Load: 0.9, Learnable: true, Judged: true, Jobs: 5000, fleet: "16x4", sizes: "openb", runs: "batch", arrivals: "sweeps", users: "mixed", limits: limitsEqual},
	{Name: "gangs-training-daily-256-l0.9-shuffled", Load: 0.9, Jobs: 2000, fleet: "32x8", sizes: "gangs", runs: "training", arrivals: "daily", users: "regular", limits: limitsEqual},
	{Name: "philly-64-l0.9-shuffled", Load: 0.9, Judged: true, Jobs: 4000, fleet: "8x8", sizes: "philly", runs: "philly", arrivals: "philly", users: "mixed", limits: limitsNone},
	// Load 1.1.
	{Name: "gangs-training-steady-256-l1.1", Load: 1.1, Learnable: true, Jobs: 2500, fleet: "32x8", sizes: "gangs", runs: "training", arrivals: "steady", users: "regular", limits: limitsNone},
	{Name: "openb-heavy-philly-64-l1.1", Load: 1.1, Learnable: true, Judged: true, Jobs: 5000, fleet: "8x8", sizes: "openb", runs: "heavy", arrivals: "philly", users: "churn", limits: limitsNone},
	{Name: "train-heavy-philly-176-l1.1", Load: 1.1, Learnable: true, Jobs: 4000, fleet: "three-types", sizes: "train", runs: "heavy", arrivals: "philly", users: "mixed", limits: limitsWrong, tenants: 4},
	{Name: "train-philly-daily-256-l1.1", Load: 1.1, Learnable: true, Judged: true, Jobs: 3500, fleet: "32x8", sizes: "train", runs: "philly", arrivals: "daily", users: "regular", limits: limitsWrong, tenants: 4},
	{Name: "small-bimodal-sweeps-64-l1.1-shuffled", Load: 1.1, Jobs: 4000, fleet: "16x4", sizes: "small", runs: "bimodal", arrivals: "sweeps", users: "churn", limits: limitsNone},
	{Name: "train-alike-weekly-192-l1.1-shuffled", Load: 1.1, Judged: true, Jobs: 3000, fleet: "16x8+16x4", sizes: "train", runs: "alike", arrivals: "weekly", users: "regular", limits: limitsNone},
	// Load 1.4.
	{Name: "philly-daily-64-l1.4", Load: 1.4, Learnable: true, Jobs: 4000, fleet: "8x8", sizes: "philly", runs: "philly", arrivals: "daily", users: "churn", limits: limitsEqual},
	{Name: "train-training-philly-176-l1.4", Load: 1.4, Learnable: true, Judged: true, Jobs: 3500, fleet: "three-types", sizes: "train", runs: "training", arrivals: "philly", users: "mixed", limits: limitsNone},
	{Name: "odd-bimodal-sweeps-192-l1.4", Load: 1.4, Learnable: true, Jobs: 3000, fleet: "16x8+16x4", sizes: "odd", runs: "bimodal", arrivals: "sweeps", users: "regular", limits: limitsNone},
	{Name: "small-bimodal-steady-128-l1.4", Load: 1.4, Learnable: true, Judged: true, Jobs: 4000, fleet: "32x4", sizes: "small", runs: "bimodal", arrivals: "steady", users: "noisy", limits: limitsWrong},
	{Name: "wide-philly-philly-512-l1.4-shuffled", Load: 1.4, Jobs: 3000, fleet: "64x8", sizes: "wide", runs: "philly", arrivals: "philly", users: "mixed", limits: limitsNone},
	{Name: "odd-heavy-daily-256-l1.4-shuffled", Load: 1.4, Judged: true, Jobs: 3000, fleet: "32x8", sizes: "odd", runs: "heavy", arrivals: "daily", users: "churn", limits: limitsNone},
	// Load 1.8.
	{Name: "train-training-weekly-256-l1.8", Load: 1.8, Learnable: true, Jobs: 3000, fleet: "32x8", sizes: "train", runs: "training", arrivals: "weekly", users: "drift", limits: limitsNone},
	{Name: "gangs-batch-daily-128-l1.8", Load: 1.8, Learnable: true, Judged: true, Jobs: 3000, fleet: "16x8", sizes: "gangs", runs: "batch", arrivals: "daily", users: "mixed", limits: limitsEqual},
	{Name: "small-philly-daily-128-l1.8", Load: 1.8, Learnable: true, Jobs: 4000, fleet: "32x4", sizes: "small", runs: "philly", arrivals: "daily", users: "mixed", limits: limitsWrong},
	{Name: "philly-sweeps-64-l1.8", Load: 1.8, Learnable: true, Judged: true, Jobs: 4000, fleet: "8x8", sizes: "philly", runs: "philly", arrivals: "sweeps", users: "regular", limits: limitsNone},
	{Name: "philly-alike-steady-64-l1.8-shuffled", Load: 1.8, Jobs: 4000, fleet: "8x8", sizes: "philly", runs: "alike", arrivals: "steady", users: "regular", limits: limitsNone},
	{Name: "train-training-philly-128-l1.8-shuffled", Load: 1.8, Judged: true, Jobs: 4000, fleet: "16x8", sizes: "train", runs: "training", arrivals: "philly", users: "drift", limits: limitsNone, tenants: 3},
	// Load 2.4.
	{Name: "openb-bimodal-philly-64-l2.4", Load: 2.4, Learnable: true, Jobs: 4000, fleet: "8x8", sizes: "openb", runs: "bimodal", arrivals: "philly", users: "regular", limits: limitsNone},
	{Name: "wide-bimodal-sweeps-512-l2.4", Load: 2.4, Learnable: true, Judged: true, Jobs: 5000, fleet: "64x8", sizes: "wide", runs: "bimodal", arrivals: "sweeps", users: "drift", limits: limitsNone},
	{Name: "gangs-heavy-sweeps-128-l2.4", Load: 2.4, Learnable: true, Jobs: 2500, fleet: "16x8", sizes: "gangs", runs: "heavy", arrivals: "sweeps", users: "noisy", limits: limitsNone},
	{Name: "small-training-flood-64-l2.4", Load: 2.4, Learnable: true, Judged: true, Jobs: 4000, fleet: "16x4", sizes: "small", runs: "training", arrivals: "flood", users: "mixed", limits: limitsWrong},
	{Name: "train-batch-weekly-128-l2.4-shuffled", Load: 2.4, Jobs: 3000, fleet: "16x8", sizes: "train", runs: "batch", arrivals: "weekly", users: "mixed", limits: limitsNone},
	{Name: "openb-heavy-steady-64-l2.4-shuffled", Load: 2.4, Judged: true, Jobs: 4000, fleet: "8x8", sizes: "openb", runs: "heavy", arrivals: "steady", users: "regular", limits: limitsNone},
	// Load 3.0.
	{Name: "train-training-flood-128-l3.0", Load: 3.0, Learnable: true, Jobs: 3000, fleet: "16x8", sizes: "train", runs: "training", arrivals: "flood", users: "churn", limits: limitsNone},
	{Name: "philly-weekly-64-l3.0", Load: 3.0, Learnable: true, Judged: true, Jobs: 4000, fleet: "8x8", sizes: "philly", runs: "philly", arrivals: "weekly", users: "mixed", limits: limitsWrong},
	{Name: "philly-heavy-steady-64-l3.0", Load: 3.0, Learnable: true, Jobs: 4000, fleet: "8x8", sizes: "philly", runs: "heavy", arrivals: "steady", users: "drift", limits: limitsEqual},
	{Name: "gangs-training-philly-256-l3.0", Load: 3.0, Learnable: true, Judged: true, Jobs: 3000, fleet: "32x8", sizes: "gangs", runs: "training", arrivals: "philly", users: "churn", limits: limitsNone},
	{Name: "small-philly-daily-64-l3.0-shuffled", Load: 3.0, Jobs: 3000, fleet: "16x4", sizes: "small", runs: "philly", arrivals: "daily", users: "churn", limits: limitsNone},
	{Name: "wide-training-daily-512-l3.0-shuffled", Load: 3.0, Judged: true, Jobs: 3000, fleet: "64x8", sizes: "wide", runs: "training", arrivals: "daily", users: "mixed", limits: limitsNone},
}
