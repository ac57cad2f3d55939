package main

const (
	transfers = "api/pipeline/transfer.go"
	restGuard = "api/rest/rest.go"
)

// These mutations break the rule that a client without a token costs a server nothing that others need, and that a client with a
// token cannot fill its memory.
var connectionLimits = []Mutation{
	{
		"connections-slow-requests", "a request keeps no slot before it has arrived and its caller has authenticated",
		edit(restGuard, "\t\tif method.IsPublicPath(r.URL.Path) {\n", "\t\tdefer pipeline.ConnectionOf(r.Context()).Begin()()\n\t\tif method.IsPublicPath(r.URL.Path) {\n"),
		inServer("TestSlowRequestsCloseNoPort"), "with slow requests",
	},
	{
		"connections-strangers-first", "the connections of clients that have authenticated are closed last",
		edit(connections, "\tc.known = true\n", ""),
		inServer("TestStrangersGoFirst"), "closed a connection of a client with one",
	},
	{
		"connections-no-file-left", "a silent connection ends when no file descriptor is left",
		edit(connections, "\t\t\t\tl.freeFile()\n", ""),
		inServer("TestNoFileLeft"), "the silent connection is closed: false",
	},
	{
		"connections-open-files", "the file descriptors that connections leave to the rest of the server",
		edit("server/files.go", "max(files-ownFiles-maxMetricsConnections, 0)", "files"),
		inServer("TestConnectionsFitOpenFiles"), "files",
	},
	{
		"connections-unread-answers", "the end of a connection whose client does not read its answers",
		edit("server/outgoing.go", "\t\to.due, o.watch = o.pending, o.renew()\n", "\t\to.due = o.pending\n"),
		inServer("TestUnreadAnswersEnd"), "keeps its connection",
	},
	{
		"connections-metrics-host", "the check of the Host at metrics without a token",
		edit("server/metrics_guard.go", "!loopback.Host(host) &&", "host == \"\" &&"),
		inServer("TestMetricsCheckTheHost"), "answered 200",
	},
	{
		"connections-message-of-a-stranger", "the authentication of a gRPC caller before its message is read",
		append(
			edit(transfers, "\t\t\tif err := g.server.authenticateFirst(ctx, name); err != nil {\n", "\t\t\tif err := g.server.authenticateFirst(ctx, \"\"); err != nil {\n"),
			edit(transfers, "\tif m.IsPublic() || BearerOf(", "\tif m != nil || BearerOf(")...,
		),
		inAPI("TestAStrangerIsRejectedBeforeItsMessage"), "the answer is",
	},
	{
		"connections-unfinished-message", "the time limit for receiving a gRPC message",
		edit(transfers, "d.ReceiveWait, func(why error) { endStream(ctx, why) })", "d.ReceiveWait, func(error) {})"),
		inAPI("TestAnUnfinishedMessageEnds"), "the answer is",
	},
	{
		"connections-slow-messages", "the number of slow transfers",
		edit(transfers, "t.leave, t.why = t.server.Limiters.Slow.Enter(context.Background(), t.who); t.why == nil {", "t.leave, t.why = t.server.Limiters.Slow.Enter(context.Background(), Account{Name: t.who.Name, Tenant: time.Now().String()}); true {"),
		inAPI("TestASlowBodyEnds"), "one too many is answered",
	},
	{
		"connections-slow-body", "the time limit for a REST body",
		edit(restGuard, "\t\t_ = http.NewResponseController(w).SetReadDeadline(time.Unix(1, 0)) // not every writer supports deadlines\n", ""),
		inAPI("TestASlowBodyEnds"), "with a token it is answered",
	},
	{
		"connections-compressed-messages", "the refusal of compressed messages",
		edit(transfers, "\tif !ok || s.RecvCompress() == \"\"", "\tif !ok || s.RecvCompress() != \"\" || s.RecvCompress() == \"\""),
		inAPI("TestABombIsRefused"), "it is answered",
	},
	{
		"connections-growing-windows", "the fixed flow-control windows of gRPC",
		edit("api/server.go", "\t\tgrpc.StaticStreamWindowSize(streamWindow),\n\t\tgrpc.StaticConnWindowSize(connectionWindow),\n", ""),
		inAPI("TestAGrowingWindow"), "grew to",
	},
	{
		"connections-streams-of-a-node", "the share of one node in the streams of agents",
		edit("api/pipeline/limiter.go", "\t\treturn g.NodeShare\n", "\t\treturn g.Share\n"),
		inAPI("TestStreamsOfOneNode"), "one node has",
	},
}
