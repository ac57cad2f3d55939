package main

const (
	loans       = "store/loan.go"
	lent        = "store/lent.go"
	uplinkLoans = "federation/uplink_loans.go"
	loanHours   = "store/loan_hours.go"
	hubHours    = "federation/loans_hours.go"
)

// These mutations remove the parts of rule F10, one comparison at a time: the quota of a tenant is lent to clusters.
var federationLoans = []Mutation{
	{
		"federation-F10-raise", "the rule that all loans together stay within the limit",
		edit(loans, "case next.GPUs > was.GPUs && l.quota < ares.Unlimited && l.others+next.GPUs > l.quota:", "case l.quota < 0:"),
		law("Loans/LoansStayWithinTheQuota"), `got error <nil>`,
	},
	{
		"federation-F10-lower", "the rule that only the answer of a cluster lowers its loan",
		edit(loans, "case next.GPUs < was.GPUs:", "case next.GPUs < 0:"),
		law("Loans/OnlyAnAnswerLowersALoan"), `got error <nil>`,
	},
	{
		"federation-F10-reply", "the comparison of an answer with the last request",
		edit(loans, "case next.Revision == 0 || next.Revision != a.Version:", "case next.Revision == 0:"),
		law("Loans/AnAnswerIsToTheLastRequest"), `got error <nil>`,
	},
	{
		"federation-F10-reply-incarnation", "the comparison of an answer with the incarnation that the hub knows",
		edit(loans, "case l.cluster.Incarnation != a.Incarnation || l.cluster.Reconciling || ", "case "),
		law("Loans/AnAnswerIsToTheLastRequest"), `got error <nil>`,
	},
	{
		"federation-F10-silent", "the rule that the loan of a member is not taken away",
		edit(loans, "case asking == nil && l.cluster.MayOwn() && l.cluster.Runs(tenant):", "case asking == nil && l.cluster.Name == \"\":"),
		law("Loans/OnlyMembersHaveLoans"), `got error <nil>`,
	},
	{
		"federation-F10-leader", "the comparison of leadership when a loan is written",
		edit(loans, "append(l.compare(), lead.leads()),\n\t\t\t[]clientv3.Op{clientv3.OpPut", "l.compare(),\n\t\t\t[]clientv3.Op{clientv3.OpPut"),
		law("Loans/OnlyTheLeaderLends"), `got error <nil>`,
	},
	{
		"federation-F10-compare", "the comparison of the other loans in the transaction",
		edit(loans, "\t\tclientv3.Compare(clientv3.ModRevision(loansOf(l.id.Tenant)), \"<\", l.revision+1).WithPrefix(),\n", ""),
		inStore("TestLoansAreCompared"), `two clusters have more than the quota`,
	},
	{
		"federation-F10-quota", "the comparison of the tenant's limit in the transaction",
		edit(loans, "\t\tclientv3.Compare(clientv3.ModRevision(tenantKey(l.id.Tenant)), \"=\", l.tenantRevision),\n", ""),
		inStore("TestLoansAreCompared"), `a quota that was lowered meanwhile`,
	},
	{
		"federation-F10-version", "the rule that a member takes no older loan",
		edit(lent, "if was := t.GetLoan(); was.GetVersion() > loan.Version {", "if was := t.GetLoan(); was.GetVersion() < 0 {"),
		law("Lent/ALoanOnlyGetsNewer"), `got error <nil>`,
	},
	{
		"federation-F10-incarnation", "the rule that a member takes no loan that was told to another incarnation",
		edit(uplinkLoans, "m.GetIncarnation() != l.me.Incarnation || m.GetGpus() < 0", "m.GetGpus() < 0"),
		inFederation("TestLoanOfAnotherIncarnation"), `the loan is`,
	},
	{
		"federation-F10-use", "the use in a member's answer",
		edit(uplinkLoans, "Gpus: int32(max(loan.GPUs, wholeGPUs(use)))", "Gpus: int32(min(loan.GPUs, loan.GPUs+wholeGPUs(use)))"),
		inFederation("TestUnreportedUse"), `a job of 8 was started in the other one`,
	},
	{
		"federation-F10-plans", "the wait for plans that were made before a loan was lowered",
		edit("control/scheduler/settled.go", "l.settled.wait(ctx, revision)", "l.settled.wait(ctx, 0)"),
		scheduler("TestUseFromWaitsForEarlierPlans"), `and one job was placed`,
	},
	{
		"federation-F10-engine", "the limit of the scheduler to the loan",
		edit("control/scheduler/loop.go", "\tb = withinLoans(b)\n", ""),
		scheduler("TestUseFromWaitsForEarlierPlans"), `a job was started without a loan`,
	},
	{
		"federation-F10-restore", "the loans that a restored member loses",
		edit(lent, "t.Loan.Gpus, t.Loan.GpuSeconds = 0, 0", "t.Loan.GpuSeconds = 0"),
		inStore("TestRestoreOfLoans"), `a restored member has the tenant`,
	},
	{
		"federation-F10-claims", "the rule that a member claims no more than its loan admits",
		edit("federation/uplink_rooms.go", "return milliOf(j) <= room", "return milliOf(j) <= room+1_000_000"),
		inFederation("TestClaimsWithinTheLoan"), `with a loan of 2`,
	},
	{
		"federation-F6-lend", "the rule that a restored hub lends nothing before all have answered",
		edit(loans, "\t\tcase l.asking != 0:\n\t\t\treturn was, hubAsks()\n", ""),
		inStore("TestRestoreOfLoans"), `has lent: <nil>`,
	},
	{
		"federation-F6-loan", "the rule that a member takes no loan of an earlier hub",
		edit(lent, "; now != hub {", "; now == \"\" {"),
		law("Lent/ALoanIsOfTheLastHub"), `got error <nil>`,
	},
	{
		"federation-F10-hours-raise", "the rule that all loans of GPU-hours together stay within the budget",
		edit(loanHours, "if budget := 3600 * int64(l.hours); others+now.Taken(now.Month) > budget {", "if budget := 3600 * int64(l.hours); budget < 0 {"),
		law("LoanHours/HoursStayWithinTheBudget"), `got error <nil>`,
	},
	{
		"federation-F10-hours-used", "the use beyond the loans of other clusters",
		edit(loanHours, "return max(h.Secs, used)", "return h.Secs"),
		law("LoanHours/OnlyAnAnswerLowersHours"), `got error <nil>`,
	},
	{
		"federation-F10-hours-lower", "the rule that only the answer of a cluster lowers its GPU-hours",
		edit(loanHours, "case now.Secs < was.Secs:", "case now.Secs < 0:"),
		law("LoanHours/OnlyAnAnswerLowersHours"), `got error <nil>`,
	},
	{
		"federation-F10-hours-kept", "the rule that a cluster gets GPU-hours only after it has said that it keeps to them",
		edit(loanHours, "case !was.Kept:", "case was.Secs < 0:"),
		law("LoanHours/HoursStayWithinTheBudget"), `got error <nil>`,
	},
	{
		"federation-F10-hours-uncounted", "the use that a restored cluster does not know of",
		edit(loanHours, "h.Incarnation, h.Uncounted = incarnation, max(h.Used-used, 0)", "h.Incarnation, h.Uncounted = incarnation, 0"),
		law("LoanHours/ARestoredClusterHasUsedWhatItHadUsed"), `after the restore`,
	},
	{
		"federation-F10-hours-month", "the month of an answer",
		edit(loanHours, "l.hours == 0 || a.Month < next.Hours.Month {", "l.hours == 0 {"),
		law("LoanHours/UsedHoursStay"), `an answer of the last month counts`,
	},
	{
		"federation-F10-hours-left", "the use of a cluster that is no member any more",
		edit(loanHours, "if l.hours == 0 || h.Used == 0 {", "if l.hours >= 0 {"),
		law("LoanHours/AFormerMemberHasUsedWhatItHadUsed"), `the rest is`,
	},
	{
		"federation-F10-hours-restore", "the GPU-hours that a restored member loses",
		edit(lent, "t.Loan.Gpus, t.Loan.GpuSeconds = 0, 0", "t.Loan.Gpus = 0"),
		inStore("TestRestoreOfHours"), `a restored member has the loan`,
	},
	{
		"federation-F6-hours", "what a cluster tells a restored hub that it has used",
		edit(loanHours, "	h = h.report(a.Incarnation, a.Month, a.Used)\n\tif h.Month", "\tif h.Month"),
		inStore("TestRestoreOfHours"), `adopted`,
	},
	{
		"federation-F10-hours-engine", "the limit of the scheduler to the GPU-hours that were lent",
		edit("engine/job/tenant.go", "return j.overOwnBudget(sh.Tenant, now) || j.OverLentBudget(sh, now)", "return j.overOwnBudget(sh.Tenant, now)"),
		Test{Package: "./engine", Run: "TestScripts/budget/lent_hours"}, `lent_hours`,
	},
	{
		"federation-F10-hours-clock", "the rule that GPU-hours do not change while hub and cluster have different months",
		edit(hubHours, "if !h.keeps || !h.confirmed || !h.current {", "if !h.keeps || !h.confirmed {"),
		inFederation("TestHoursAndOtherMonths"), `the clocks show different months`,
	},
	{
		"federation-F10-hours-confirm", "the rule that a restored cluster says what it has used before it gets GPU-hours",
		edit(hubHours, "if !h.Kept || h.Incarnation != s.hello.Incarnation {", "if !h.Kept {"),
		inFederation("TestRestoredMemberHasUsedHours"), `were used before the restore`,
	},
}
