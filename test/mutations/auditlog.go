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
		edit("audit/marker.go", "\tif contained {\n", "\tif contained || true {\n"),
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
}
