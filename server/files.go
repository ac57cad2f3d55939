package server

import "syscall"

// ownFiles is the number of file descriptors that connections leave to the rest of the server: the store, the audit log, history
// and connections to other servers.
const ownFiles = 512

// fitOpenFiles lowers the limits on connections if the process may not open as many files. Clients without a token could
// otherwise use up the file descriptors, and the server could not write its audit log any more.
func (s *Server) fitOpenFiles(l *LimitsConfig) {
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		s.log.Warn("the limit on open files is unknown", "error", err)
		return
	}
	if files.Cur < 1<<31 && l.fitFiles(int(files.Cur)) {
		s.log.Warn("the limit on open files is too low for the configured connections, so fewer are allowed: raise the limit, for example with LimitNOFILE in the systemd unit",
			"open_files", files.Cur, "limits.http_connections", l.HTTPConnections, "limits.grpc_connections", l.GRPCConnections)
	}
}

// fitFiles lowers the limits on connections in proportion, and reports whether it did.
func (l *LimitsConfig) fitFiles(files int) bool {
	free, want := max(files-ownFiles-maxMetricsConnections, 0), l.HTTPConnections+l.GRPCConnections
	if want <= free {
		return false
	}
	l.HTTPConnections = max(l.HTTPConnections*free/want, 16)
	l.GRPCConnections = max(l.GRPCConnections*free/want, 16)
	return true
}
