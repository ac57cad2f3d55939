# PostgreSQL on port 5433, in place of the container gpu-scheduler-postgres.
pg=$(dirname "$(command -v initdb || ls /usr/lib/postgresql/*/bin/initdb | tail -1)")
export PGDATA=$HOME/postgres PGPASSWORD=gpu123
mkdir "$PGDATA" && chown 65534:65534 "$PGDATA"
echo gpu123 >"$HOME/password"
as_nobody() { setpriv --reuid 65534 --regid 65534 --clear-groups "$@"; } # PostgreSQL refuses to run as root
start_postgres() {
	as_nobody "$pg/postgres" -p 5433 -h localhost -k "$PGDATA" -c fsync=off -c shared_buffers=32MB >>"$HOME/postgres.log" 2>&1 &
	await 30 pg_isready -h localhost -p 5433 -U postgres
}
restart_postgres() {
	as_nobody "$pg/pg_ctl" stop -s -m fast -D "$PGDATA" && start_postgres
}
as_nobody "$pg/initdb" -U postgres --pwfile="$HOME/password" --auth=scram-sha-256 -E UTF8 --no-sync
start_postgres
createdb -h localhost -p 5433 -U postgres gpu_scheduler

# query: run the SQL of standard input in the database of the document.
query() { psql -X -v ON_ERROR_STOP=1 -h localhost -p 5433 -U postgres -d gpu_scheduler; }

# start_node: add a node with mock GPUs to the scheduler of the document, which has none.
start_node() {
	ares agent --node gpu-1 --server localhost:9090 --token-file ~/.local/share/ares/node.token --data-dir "$HOME/node" >"$HOME/node.log" 2>&1 &
	await 30 sh -c 'ares node list | grep -q online' || { cat "$HOME/node.log"; return 1; }
}

# briefly HOME VARIABLE=VALUE...: run the scheduler in the foreground until it answers, beside the scheduler of the document.
briefly() {
	local home=$1
	shift
	env HOME="$home" GPU_SCHEDULER_API_HTTP_PORT=8082 GPU_SCHEDULER_API_GRPC_PORT=9092 GPU_SCHEDULER_API_METRICS_PORT=9093 "$@" \
		./bin/scheduler --config config/scheduler-config.yaml &
	local pid=$!
	await 30 curl -sf http://localhost:8082/health
	kill -INT $pid
	wait $pid
}
