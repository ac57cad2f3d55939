// Command probe prints what a container shows to its program: the arguments, the environment, the directory, and every file below /w.
// Its first argument of the form exit=N is its exit code, and signal=N makes it send a signal to itself.
package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

func main() {
	fmt.Printf("id %d %d\n", os.Getuid(), os.Getgid())
	fmt.Printf("argv %q\n", os.Args)
	env := os.Environ()
	slices.Sort(env)
	for _, v := range env {
		fmt.Printf("env %q\n", v)
	}
	dir, err := os.Getwd()
	fmt.Printf("dir %q %v\n", dir, err)
	inodes := map[uint64]string{}
	_ = filepath.WalkDir("/w", func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			fmt.Printf("file %s: %v\n", path, err)
			return nil
		}
		fmt.Println("file", describe(path, inodes))
		return nil
	})
	code := 0
	for _, a := range os.Args[1:] {
		name, value, _ := strings.Cut(a, "=")
		n, _ := strconv.Atoi(value)
		switch name {
		case "exit":
			code = n
		case "signal":
			fmt.Println("signal", syscall.Kill(os.Getpid(), syscall.Signal(n)))
		case "read":
			b, err := os.ReadFile(value)
			fmt.Printf("read %q %v\n", b, err)
		}
	}
	os.Exit(code)
}

func describe(path string, inodes map[uint64]string) string {
	var st syscall.Stat_t
	if err := syscall.Lstat(path, &st); err != nil {
		return path + " " + err.Error()
	}
	text := fmt.Sprintf("%s %o %d:%d", path, st.Mode, st.Uid, st.Gid)
	switch st.Mode & syscall.S_IFMT {
	case syscall.S_IFLNK:
		to, err := os.Readlink(path)
		return fmt.Sprintf("%s -> %q %v", text, to, err)
	case syscall.S_IFDIR:
		return text
	case syscall.S_IFREG:
		b, err := os.ReadFile(path)
		text += fmt.Sprintf(" time %d content %q %v", st.Mtim.Sec, b[:min(len(b), 100)], err)
		if first := inodes[st.Ino]; first != "" {
			text += " linked to " + first
		} else {
			inodes[st.Ino] = path
		}
		if size, err := syscall.Getxattr(path, "user.test", make([]byte, 64)); err == nil {
			text += fmt.Sprintf(" attribute of %d", size)
		}
	}
	return text
}
