# A cluster of two nodes with eight GPUs each, in two regions.
start_ares --node n1 --node-label region=us-west-1 --node-label zone=a --node-label rack=r1 --mock dgx-h100
ares agent --node n2 --node-label region=eu-west-1 --node-label zone=b --node-label rack=r2 --mock dgx-h100 \
	--server 127.0.0.1:9090 --token-file ~/.local/share/ares/node.token --data-dir "$HOME/n2" >"$HOME/n2.log" 2>&1 &
await 60 sh -c 'test $(ares node list | grep -c " online ") = 2'

# plan NAME FIELDS...: where a job would run. Each field is a line of a job file.
plan() {
	printf '%s\n' "name: $1" 'command: ["true"]' "${@:2}" | ares job plan -f - 2>&1
}

# state JOB STATE: wait until a job has a state.
state() { await 40 sh -c "ares job get $1 -o json | jq -e '.state == \"$2\"'"; }
