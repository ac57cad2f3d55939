#!/usr/bin/env bash
# A demo of Ares over its REST API: create a tenant, submit jobs with several priorities, show the queue and the
# cluster, and wait for the jobs. It works with `make run` and with `docker-compose up -d`, and needs curl and jq.
#
#   ./demo.sh
#   ARES_URL=http://localhost:8081 ARES_TOKEN=… ./demo.sh     # another server
set -euo pipefail

URL=${ARES_URL:-http://localhost:8080}
URL=${URL%/}

fail() {
	printf 'demo.sh: %s\n' "$@" >&2
	exit 1
}

for program in curl jq; do
	command -v "$program" >/dev/null || fail "this demo needs $program: install it, for example with apt-get install $program"
done

# --- The server and a token for it ------------------------------------------------------------------------------------

curl -s --max-time 5 -o /dev/null "$URL/api/v1/health" ||
	fail "no server answers at $URL." "Start one with 'make run', or with 'make docker-build && docker-compose up -d'; ARES_URL names another address."

# accepted TOKEN: whether the server accepts the token. The token goes to curl by its standard input, because all
# users of a machine can see the arguments of a program.
accepted() {
	[[ -n $1 ]] && curl -sf --max-time 10 -o /dev/null -K - "$URL/api/v1/auth/whoami" <<<"header = \"Authorization: Bearer $1\""
}

find_token() {
	local data=${ARES_DATA_DIR:-${XDG_DATA_HOME:-$HOME/.local/share}/ares} token
	if [[ -n ${ARES_TOKEN:-} ]]; then
		accepted "$ARES_TOKEN" || fail "the server at $URL does not accept the token in ARES_TOKEN."
		printf '%s' "$ARES_TOKEN"
		return
	fi
	for file in "${ARES_TOKEN_FILE:-}" "$data/admin.token"; do
		[[ -r $file ]] && token=$(<"$file") && accepted "$token" && printf '%s' "$token" && return
	done
	if command -v docker >/dev/null && token=$(docker exec ares-server cat /var/lib/ares/admin.token 2>/dev/null) && accepted "$token"; then
		printf '%s' "$token"
		return
	fi
	fail "found no token that the server at $URL accepts." "Looked for $data/admin.token and in the container ares-server. Set ARES_TOKEN, or ARES_TOKEN_FILE to the admin.token of the server's data directory."
}
TOKEN=$(find_token)

# call METHOD PATH [BODY]: print the answer, or fail with the server's error.
call() {
	local answer status
	answer=$(curl -s --max-time 30 -w '\n%{http_code}' -X "$1" -H 'Content-Type: application/json' ${3:+-d "$3"} -K - "$URL/api/v1$2" <<<"header = \"Authorization: Bearer $TOKEN\"") ||
		fail "$1 $URL/api/v1$2: the server does not answer any more."
	status=${answer##*$'\n'} answer=${answer%$'\n'*}
	[[ $status == 2* ]] || { [[ $status == "${ALLOW:-}" ]] && return; } || fail "$1 $URL/api/v1$2: $status $answer"
	printf '%s\n' "$answer"
}

title() { printf '\n== %s ==\n' "$*"; }

# --- The cluster ------------------------------------------------------------------------------------------------------

title "Cluster at $URL"
cluster=$(call GET /cluster/status)
jq '{online_nodes, total_gpus, available_gpus, running_jobs, pending_jobs, mock, version}' <<<"$cluster"
[[ $(jq .online_nodes <<<"$cluster") -gt 0 ]] || fail "no node is online, so no job can run." "Start an agent: docs/guide/quickstart.md, Add a node."
gpus=$(jq 'if .total_gpus > 0 then 1 else 0 end' <<<"$cluster")

# --- A tenant ---------------------------------------------------------------------------------------------------------

# With one job at a time, the other jobs wait, and the queue decides which one is next.
title 'Tenant demo, which may run one job at a time'
ALLOW=409 call POST /tenants '{"id": "demo", "name": "Demo team", "max_gpus": 4, "max_gpu_memory_mb": 400000,
	"max_cpu_cores": 8, "max_memory_mb": 16000, "max_concurrent_jobs": 1}' >/dev/null
call GET /tenants/demo | jq '.tenant // . | {id, name, max_gpus, max_concurrent_jobs}'

# --- Jobs -------------------------------------------------------------------------------------------------------------

ids=()
submit() { # NAME PRIORITY SECONDS
	local body id
	body=$(jq -n --arg name "$1" --argjson priority "$2" --argjson gpus "$gpus" --arg seconds "$3" '{
		tenant_id: "demo", name: $name, priority: $priority, gpu_count: $gpus, cpu_cores: 1, memory_mb: 256,
		command: ["sh", "-c", "echo \($name) on GPUs $CUDA_VISIBLE_DEVICES; sleep \($seconds)"], max_runtime_minutes: 5}')
	id=$(call POST /jobs "$body" | jq -r .job_id)
	ids+=("$id")
	printf '%-18s priority %4d  %s\n' "$1" "$2" "$id"
}

title 'Six jobs, the least urgent first'
submit warm-up 2000 5 # runs while the others are submitted
submit nightly-report 50 0.3
submit parameter-search 100 0.3
submit training 500 0.3
submit fine-tuning 1000 0.3
submit hotfix 2000 0.3

# jobs FILTER: the jobs of this run, as JSON, filtered by jq.
jobs() {
	call GET '/jobs?tenant_id=demo&page_size=1000' | jq -r --args "[.jobs[] | select(.id | IN(\$ARGS.positional[]))] | $1" "${ids[@]}"
}
row='"\(.state)\t\(.priority)\t\(.priority_class)\t\(.name)"'

title 'The queue, by priority'
jobs 'map(select(.state == "pending")) | sort_by(-.priority, .created_at) | .[] | '"$row" | expand -t 12,18,30

title 'Cluster status'
call GET /cluster/status | jq '{total_gpus, available_gpus, running_jobs, pending_jobs}'

# --- The end ----------------------------------------------------------------------------------------------------------

title 'Wait for all jobs'
unfinished='map(select(.state | IN("succeeded", "completed", "failed", "cancelled", "lost") | not))'
for ((tries = 0; ; tries++)); do
	left=$(jobs "$unfinished | .[0].id // empty")
	[[ -n $left ]] || break
	((tries < 180)) || fail "the jobs have not ended after three minutes." "Find the reason with: ares job explain $left"
	sleep 1
done
echo 'In the order of their starts:'
jobs 'sort_by(.started_at) | .[] | '"$row" | expand -t 12,18,30
[[ $(jobs 'map(select(.state | IN("succeeded", "completed") | not)) | length') == 0 ]] || fail 'not all jobs succeeded: ares job get JOB shows why.'
