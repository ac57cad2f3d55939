package compose_test

import (
	"context"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ares-scheduler/ares/test/live"
)

// postgresImage stands in for postgres:15-alpine, which test machines cannot
// download.
const postgresImage = "ares-postgres:local"

// TestCompose runs docker-compose.yml and demo.sh as the source documents and
// the quickstart say, and a job to its end in the containers.
func TestCompose(t *testing.T) {
	s := shell{t: t, dir: live.Root(t)}
	if out, ok := s.try(20*time.Second, "./demo.sh"); ok || !strings.Contains(out, "no server answers at http://localhost:8080") {
		t.Errorf("without a server, the demo says: %s", out)
	}
	startDocker(t)
	s.run("make -n docker-build", `(?m)^deploy/docker/build$`)
	s.run("deploy/docker/build", `sha256:`)
	s.run("deploy/docker/postgres "+postgresImage, `sha256:`)
	s.run("docker-compose build", `Successfully tagged ares-etcd:local`, `Successfully tagged ares:local`)
	t.Setenv("ARES_POSTGRES_IMAGE", postgresImage)
	t.Setenv("ARES_POSTGRES_PASSWORD", "p@ss/w:rd")

	s.run("docker-compose up -d")
	s.run("docker ps", `ares-etcd:local .*Up .*ares-etcd`, postgresImage+` .*Up .*gpu-scheduler-postgres`)
	s.run("docker-compose ps", `ares-etcd .*Up`, `ares-server .*Up`, `ares-worker .*Up`, `gpu-scheduler-postgres .*Up`)
	etcd(s)
	s.await("docker exec ares-server ares node list", `worker-1 .*online`)
	demo(s)
	history(s)
	restarts(s)
	s.run("docker-compose down -v")
	s.run("docker ps --all --quiet && docker volume ls --quiet", `^$`)

	// The database of the source document, without compose.
	s.run("docker tag " + postgresImage + " postgres:15-alpine")
	s.run(`docker run -d --name gpu-scheduler-postgres \
  -e POSTGRES_PASSWORD=gpu123 \
  -e POSTGRES_DB=gpu_scheduler \
  -p 5433:5432 \
  postgres:15-alpine`)
	s.await("docker exec gpu-scheduler-postgres pg_isready -U postgres", `accepting connections`)
}

// The function `etcd` runs the commands of the source documents about etcd.
func etcd(s shell) {
	s.run("docker exec ares-etcd etcdctl endpoint health", `127.0.0.1:2379 is healthy: successfully committed proposal`)
	s.run("docker exec ares-etcd etcdctl member list", `started, etcd0, http://ares-etcd:2380`)
	s.run(`docker exec ares-etcd etcdctl get "" --prefix --keys-only`, `(?m)^/ares/`)
	s.run("docker-compose exec etcd etcdctl endpoint health", `is healthy`)
	s.input = "echo a shell in $HOSTNAME\nexit\n"
	s.run("docker-compose exec etcd sh", `(?m)^a shell in ares-etcd$`)
	s.input = ""
	s.run("docker-compose logs --tail=100 etcd", `ares-etcd .*serving client traffic`)
	// On a busy machine, docker-compose needs many seconds to start.
	s.run(`timeout 60 docker-compose logs -f | awk '{ print } /ares-server/ { server = 1 } /ares-etcd/ { etcd = 1 } server && etcd { exit }'`,
		`ares-server`, `ares-etcd`)
}

// The function `demo` runs the demo twice, because a demo that works only on a
// new cluster surprises its users.
func demo(s shell) {
	for range 2 {
		out := s.run("./demo.sh", `"online_nodes": 1`, `"total_gpus": 4`, `"max_concurrent_jobs": 1`)
		queue := names(out, "pending")
		if want := []string{"hotfix", "fine-tuning", "training", "parameter-search", "nightly-report"}; !slices.Equal(queue, want) {
			s.t.Errorf("the demo shows the queue %s, want %s", queue, want)
		}
		if started, want := names(out, "succeeded"), append([]string{"warm-up"}, queue...); !slices.Equal(started, want) {
			s.t.Errorf("the jobs of the demo start in the order %s, want %s", started, want)
		}
	}
}

// The function `names` returns the names of the jobs in a state, in the order
// in which the demo prints them.
func names(out, state string) []string {
	var all []string
	for _, row := range regexp.MustCompile(`(?m)^`+state+` +\d+ +\S+ +(\S+)$`).FindAllStringSubmatch(out, -1) {
		all = append(all, row[1])
	}
	return all
}

// The function `history` runs a job and finds it in PostgreSQL.
func history(s shell) {
	// The job runs as a user of its tenant, not as the worker's root.
	s.run(`ID=$(docker exec ares-server ares job submit --name pair --gpus 2 -- sh -c 'echo on GPUs $CUDA_VISIBLE_DEVICES as $(id -u)') &&
		docker exec ares-server ares job wait $ID && docker exec ares-server ares job logs $ID`, `on GPUs 0,1 as [1-9]\d{5,}`)
	s.await(`docker exec gpu-scheduler-postgres psql -U postgres -d gpu_scheduler -c "SELECT name FROM jobs"`, `\bpair\b`)
}

// The function `restarts` restarts services under a running job, which must
// continue as the same attempt. Then it restarts all services, which must keep
// their data.
func restarts(s shell) {
	const job = "docker exec ares-server ares job "
	// On a busy machine, etcd may need longer to restart than the default of 25 s allows.
	id := strings.TrimSpace(s.run(job + "submit --name survivor --gpus 1 --lost-after-seconds 120 -- sleep 10 2>/dev/null"))
	s.await(job+"get "+id, `running`)
	s.run("docker-compose restart etcd")
	s.await("docker exec ares-etcd etcdctl endpoint health", `is healthy`)
	s.run("docker restart gpu-scheduler-postgres")
	s.await("docker exec gpu-scheduler-postgres pg_isready -U postgres", `accepting connections`)
	s.run(job+"wait "+id+" && "+job+"get -o json "+id, `"state": "succeeded"`, `"attempt": 1\b`)
	s.run("docker-compose down")
	s.run("docker-compose up -d")
	s.run(job+"get "+id, `succeeded`)
}

// A shell runs commands of documents at the root of the repository.
type shell struct {
	t     *testing.T
	dir   string
	input string // what a user types
}

// The method `run` runs a command that must succeed. Its output must match each
// regular expression.
func (s shell) run(command string, want ...string) string {
	s.t.Helper()
	began := time.Now()
	out, ok := s.try(2*time.Minute, command)
	s.t.Logf("%5.1f s  %s", time.Since(began).Seconds(), command)
	if !ok {
		s.t.Fatalf("%s fails: %s", command, tail(out))
	}
	for _, w := range want {
		if !regexp.MustCompile(w).MatchString(out) {
			s.t.Errorf("%s prints no %s: %s", command, w, tail(out))
		}
	}
	return out
}

// The method `await` repeats a command until it succeeds and its output matches
// a regular expression.
func (s shell) await(command, want string) {
	s.t.Helper()
	live.Await(s.t, time.Minute, command+" to print "+want, func() (bool, string) {
		out, ok := s.try(20*time.Second, command)
		return ok && regexp.MustCompile(want).MatchString(out), tail(out)
	})
}

// The variable `colors` matches the colors that programs print to a terminal.
var colors = regexp.MustCompile("\x1b\\[[0-9;]*m")

// The method `try` runs a command in a terminal of its own, because `docker-compose
// exec` needs one. It returns what the command prints.
func (s shell) try(atMost time.Duration, command string) (string, bool) {
	ctx, cancel := context.WithTimeout(s.t.Context(), atMost)
	defer cancel()
	cmd := exec.CommandContext(ctx, "script", "--quiet", "--return", "--command", "stty cols 300; "+command, "/dev/null")
	cmd.Env = append(os.Environ(), "SHELL=/bin/bash")
	if s.input != "" {
		cmd.Stdin = strings.NewReader(s.input)
	}
	cmd.Dir, cmd.WaitDelay = s.dir, 5*time.Second
	out, err := cmd.CombinedOutput()
	return strings.ReplaceAll(colors.ReplaceAllString(string(out), ""), "\r\n", "\n"), err == nil
}
