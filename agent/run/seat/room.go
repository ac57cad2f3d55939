//go:build linux

package seat

// User is whom a job runs as. Groups are the further ones it is in; those of the agent
// are never among them by themselves.
type User struct {
	UID, GID uint32
	Groups   []uint32
}

// Limits are what a job may use of its machine; 0 is no limit.
type Limits struct {
	MilliCPU int64 // thousandths of a core
	MemoryMB int64
	Pids     int64 // processes and threads
}

// Room is what sets a job apart from the rest of its machine, in a mount namespace of its
// own. It needs root and a User: root could undo it.
type Room struct {
	// Private gives the job the room: RoomDir, the processes of its own user alone in
	// /proc, and what follows.
	Private bool
	// OwnTmp puts the job's temporary directory in the place of /tmp and /var/tmp.
	OwnTmp bool
	// Scratch is the absolute path of a directory that the job finds as RoomWork.
	Scratch string
	// Hide are files that the job must not open: the device nodes of others.
	Hide []string
}

// In a room the job finds its files here, wherever the agent keeps them: the directories
// above those are closed to it.
const (
	RoomDir        = "/run/ares"
	RoomWork       = RoomDir + "/work"
	RoomProgress   = RoomDir + "/progress"
	RoomCheckpoint = RoomDir + "/checkpoint"
	RoomTmp        = RoomDir + "/tmp"
)

// Names in a seat directory that belong to a room.
const (
	TmpDir = "tmp" // the job's temporary directory
	// ClosedFile is an empty file that nobody but root may open; it is put over what is
	// hidden.
	ClosedFile = "closed"
)

// Group is a cgroup of version 1. A process is put there by its parent thread, which joins
// it, forks, and goes back.
type Group struct {
	Dir  string // of the seat
	Back string // where the supervisor belongs
}

func (o *Order) encodeRoom(e *encoder) {
	e.num("limit_cpu", o.Limits.MilliCPU)
	e.num("limit_memory", o.Limits.MemoryMB)
	e.num("limit_pids", o.Limits.Pids)
	e.str("tmp", o.Tmp)
	e.str("memory_group", o.MemoryGroup)
	for _, g := range o.Groups {
		e.str("v1_dir", g.Dir)
		e.str("v1_back", g.Back)
	}
	if o.PidsByUser {
		e.str("pids_by", "user")
	}
	if o.Room.Private {
		e.str("room", "private")
	}
	if o.Room.OwnTmp {
		e.str("room_tmp", "own")
	}
	e.str("room_scratch", o.Room.Scratch)
	for _, path := range o.Room.Hide {
		e.str("hide", path)
	}
}

func (o *Order) decodeRoom(f field, d *numbers) {
	switch f.key {
	case "limit_cpu":
		o.Limits.MilliCPU = d.num(f)
	case "limit_memory":
		o.Limits.MemoryMB = d.num(f)
	case "limit_pids":
		o.Limits.Pids = d.num(f)
	case "tmp":
		o.Tmp = f.value
	case "memory_group":
		o.MemoryGroup = f.value
	case "v1_dir":
		o.Groups = append(o.Groups, Group{Dir: f.value})
	case "v1_back":
		if n := len(o.Groups); n > 0 {
			o.Groups[n-1].Back = f.value
		}
	case "pids_by":
		o.PidsByUser = true
	case "room":
		o.Room.Private = true
	case "room_tmp":
		o.Room.OwnTmp = true
	case "room_scratch":
		o.Room.Scratch = f.value
	case "hide":
		o.Room.Hide = append(o.Room.Hide, f.value)
	}
}
