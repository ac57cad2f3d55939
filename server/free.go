package server

import "golang.org/x/sys/unix"

// freeMB is the space that is left where the data directory is, -1 when the
// system does not tell.
func (s *Server) freeMB() int64 { return FreeMB(s.cfg.DataDir) }

// FreeMB is the space that is left where a directory is, -1 when the system does
// not tell.
func FreeMB(dir string) int64 {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return -1
	}
	return int64(st.Bavail * uint64(st.Bsize) >> 20)
}
