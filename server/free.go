package server

import "golang.org/x/sys/unix"

// freeMB returns the free space on the data directory's disk, or -1 if the system does not report it.
func (s *Server) freeMB() int64 { return FreeMB(s.cfg.DataDir) }

// FreeMB returns the free space on a directory's disk, or -1 if the system does not report it.
func FreeMB(dir string) int64 {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return -1
	}
	return int64(st.Bavail * uint64(st.Bsize) >> 20)
}
