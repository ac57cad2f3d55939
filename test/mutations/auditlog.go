package main

// These mutations break the rule that a cut or replaced audit log, or a changed recording, is found.
var auditLog = []Mutation{
	{
		"audit-mark-beyond-the-end", "the comparison of the log's end with the mark",
		edit("audit/mark.go", "m.Sequence > v.Last {", "m.Sequence > v.Last && m.Hash == \"\" {"),
		Test{Package: "./audit", Run: "TestMarkRevealsACutLogWithItsHeads"}, `an older copy of the log was put back`,
	},
	{
		"audit-mark-follows-another-log", "the check that the log contains the stored mark",
		edit("audit/marker.go", "\tcase !contained:\n", "\tcase !contained && false:\n"),
		Test{Package: "./audit", Run: "TestMarkerNeverMarksAnotherLog"}, `the mark moved`,
	},
	{
		"audit-mark-moves-back", "the comparison of the stored mark with the one that is moved",
		edit("store/auditmark.go", "stored.Sequence != from.Sequence || stored.Hash != from.Hash || to.Sequence <= stored.Sequence", "stored.Sequence > to.Sequence+100"),
		law("AuditMarks"), `from none`,
	},
	{
		"audit-recording-digest", "the comparison of a recording with its digest in the log",
		edit("sim/decisions.go", "hex.EncodeToString(sum.Sum(nil)) != d.SHA256", "hex.EncodeToString(sum.Sum(nil)) == \"\""),
		Test{Package: "./sim", Run: "TestVerifyDecisions$"}, `was changed`,
	},
	{
		"audit-outside-head-beyond-the-end", "the comparison of a running log with a head beyond its end",
		edit("audit/verify.go", "(h.given || v.check", "(v.check"),
		Test{Package: "./audit", Run: "TestOutsideHeadBeyondTheEnd"}, `its end was cut off`,
	},
	{
		"audit-floor-without-entry", "the search for the entry about removed entries",
		edit("audit/removed.go", "if v.expired > 0 {", "if v.expired >= 0 {"),
		Test{Package: "./audit", Run: "TestForgedFloor"}, `somebody removed them`,
	},
	{
		"audit-removed-entry-counts-as-compared", "the check that the entry of a head is still in the log",
		edit("audit/removed.go", "\tif v.partial || seq >= v.First || seq > v.low.Sequence {", "\tif v.partial || true {"),
		Test{Package: "./audit", Run: "TestHeadOfARemovedEntry"}, `an old head`,
	},
	{
		"audit-young-mark-below-floor", "the age of a mark whose entry was removed",
		edit("audit/mark.go", "return l.cfg.Keep > 0 && l.cfg.Now().Sub(m.Time) >= l.cfg.Keep, nil", "return true, nil"),
		Test{Package: "./audit", Run: "TestFloorHidesNoMark"}, `a young mark`,
	},
	{
		"audit-key-replaced", "the comparison of the key with the mark",
		edit("audit/marker.go", `stored.Key != "" && stored.Key != m.Log.Key()`, `stored.Key != "" && stored.Key == "-"`),
		Test{Package: "./audit", Run: "TestMarkerNoticesAnotherKeyAndARemovedMark"}, `a replaced key`,
	},
	{
		"audit-mark-removed", "the search for the entry which says that the store had a mark",
		edit("audit/marker.go", "if len(page.Entries) > 0 {", "if len(page.Entries) > 9 {"),
		Test{Package: "./audit", Run: "TestMarkerNoticesAnotherKeyAndARemovedMark"}, `a removed mark`,
	},
	{
		"audit-file-removed-while-written", "the check of the file before each write",
		edit("audit/write.go", "if err := l.intact(); err != nil {", "if err := l.intact(); err != nil && l.seq == 0 {"),
		Test{Package: "./audit", Run: "TestFilesUnderARunningServer"}, `an entry was recorded`,
	},
	{
		"audit-empty-directory", "the fault for a directory without entries",
		edit("audit/verify.go", "\tif len(all) == 0 {\n", "\tif len(all) < 0 {\n"),
		Test{Package: "./audit", Run: "TestNoLogIsNoGoodLog"}, `has no entries`,
	},
	{
		"audit-log-of-another-server", "the check whose log it is",
		edit("audit/write.go", `l.owner != "" && l.owner != l.cfg.Server`, `l.owner != "" && l.owner == "-"`),
		Test{Package: "./audit", Run: "TestAnotherServersLog"}, `another server opened the log`,
	},
	{
		"audit-clock-set-back", "the entry that says that the clock was set back",
		edit("audit/intact.go", "if !now.Before(was.Add(-maxClockStep)) {", "if !now.Before(was.Add(-maxClockStep)) || true {"),
		Test{Package: "./audit", Run: "TestClockSetBack"}, `attack_test.go`,
	},
	{
		"audit-clock-hides-entries", "the search beyond entries from before the clock was set back",
		edit("audit/query.go", "return f.stepped.IsZero() ||", "return true ||"),
		Test{Package: "./audit", Run: "TestClockSetBack"}, `are hidden`,
	},
	{
		"audit-copy-in-history", "the comparison of entries with their copies in history",
		edit("audit/copied.go", "hash != e.Hash || got.Hash != e.Hash {", "hash != e.Hash {"),
		Test{Package: "./audit", Run: "TestCopyIsCompared"}, `an entry was changed|differs from the entry in history`,
	},
	{
		"audit-copy-removed-in-history", "the fault for an entry that history lacks",
		edit("audit/copied.go", "if c.begun || e.Time.After(v.check.CopySince) {", "if c.begun && e.Time.IsZero() {"),
		Test{Package: "./audit", Run: "TestCopyIsCompared"}, `history lacks entry`,
	},
	{
		"audit-ended-log-not-named", "the names of other servers' logs in the report",
		edit("server/audit_mark.go", "check.NotCompared = append(check.NotCompared, s.otherLogs(ctx)...)", "_ = s.otherLogs"),
		Test{Package: "./server", Run: "TestALogThatJustEndsIsNamed"}, `the log that ended is not named`,
	},
	{
		"audit-recording-environments", "the removal of environments from recordings",
		edit("control/recording/writer.go", "bare.Environment = nil", "bare.Environment = job.Environment"),
		Test{Package: "./control/recording", Run: "TestRecordingsHaveNoEnvironments"}, `the recording contains the environment`,
	},
	{
		"audit-recording-gap", "the report of times without recordings",
		edit("sim/decisions.go", "r.gap(list[i].Time, why)", "_ = why"),
		Test{Package: "./sim", Run: "TestVerifyDecisionsTellsGapsAndRemovals"}, `the gaps are`,
	},
}
