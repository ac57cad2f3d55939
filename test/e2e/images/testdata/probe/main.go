// Command probe prints what a container shows to its program: the arguments, the environment, the directory, and every file below /w.
// Its first argument of the form exit=N is its exit code, and signal=N makes it send a signal to itself.
package main

import (
	"errors"
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
		default:
			if do := asRoot[name]; do != nil {
				path, rest, _ := strings.Cut(value, ":")
				n, _ := strconv.Atoi(rest)
				if name == "chmod" {
					bits, _ := strconv.ParseUint(rest, 8, 32)
					n = int(bits)
				}
				fmt.Println(a, do(path, rest, n))
				for _, at := range []string{path, rest} {
					var st syscall.Stat_t
					if syscall.Lstat(at, &st) == nil {
						fmt.Printf("%s is %o of %d bytes, %d links\n", at, st.Mode, st.Size, st.Nlink)
					}
				}
			}
		}
	}
	os.Exit(code)
}

// asRoot is what root does in an image. The path may be a number.
var asRoot = map[string]func(path, rest string, n int) error{
	"whoami": func(string, string, int) error {
		fmt.Println("user", os.Getuid(), os.Geteuid(), os.Getgid(), os.Getegid())
		return nil
	},
	"write": func(path, _ string, _ int) error { return os.WriteFile(path, []byte(path), 0o644) },
	"append": func(path, _ string, _ int) error {
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
		if err != nil {
			return err
		}
		_, err = f.WriteString("more")
		return errors.Join(err, f.Close())
	},
	"remove":    func(path, _ string, _ int) error { return os.Remove(path) },
	"rename":    func(path, to string, _ int) error { return os.Rename(path, to) },
	"link":      func(path, to string, _ int) error { return os.Link(path, to) },
	"mkdir":     func(path, _ string, _ int) error { return os.MkdirAll(path, 0o755) },
	"chmod":     func(path, _ string, mode int) error { return syscall.Chmod(path, uint32(mode)) },
	"chown":     func(path, _ string, id int) error { return os.Chown(path, id, id) },
	"mknod":     func(path, _ string, _ int) error { return denied(syscall.Mknod(path, syscall.S_IFBLK|0o600, 8<<8)) },
	"mount":     func(path, _ string, _ int) error { return denied(syscall.Mount("none", path, "tmpfs", 0, "")) },
	"proc":      func(path, _ string, _ int) error { return denied(os.WriteFile(path, []byte("core"), 0)) },
	"setuid":    func(id, _ string, _ int) error { n, _ := strconv.Atoi(id); return syscall.Setuid(n) },
	"setgid":    func(id, _ string, _ int) error { n, _ := strconv.Atoi(id); return syscall.Setgid(n) },
	"setgroups": func(id, _ string, _ int) error { n, _ := strconv.Atoi(id); return syscall.Setgroups([]int{n}) },
}

// denied hides which of several protections an attempt meets first.
func denied(err error) error {
	if err == nil {
		return nil
	}
	return errors.New("denied")
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
