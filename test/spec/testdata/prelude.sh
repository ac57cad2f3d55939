# Functions for the rows of every document. Sourced at the start of each session.
ip link set lo up

# await SECONDS COMMAND...: repeat a command until it succeeds.
await() {
	local end=$((SECONDS + $1))
	shift
	until "$@" >/dev/null 2>&1; do
		if ((SECONDS >= end)); then
			echo "not in time: $*" >&2
			"$@"
			return 1
		fi
		sleep 0.1
	done
}

# token_for_curl: send the administrator's token with every request, as the page docs/reference/spec.md says.
token_for_curl() {
	if [[ -r ~/.local/share/ares/admin.token ]]; then
		echo "header = \"Authorization: Bearer $(cat ~/.local/share/ares/admin.token)\"" >~/.curlrc
	fi
}

# start_ares [FLAGS]: start `ares up` on its default ports, and wait for its node.
start_ares() {
	ares up "$@" >"$HOME/ares.log" 2>&1 &
	await 30 sh -c 'ares node list | grep -q online' || { cat "$HOME/ares.log"; return 1; }
	token_for_curl
}

# start_etcd: start etcd on 127.0.0.1:2379, in place of the container ares-etcd.
start_etcd() {
	"$ETCD" --data-dir "$HOME/etcd" --unsafe-no-fsync --log-level error >"$HOME/etcd.log" 2>&1 &
	await 30 "$ETCDCTL" endpoint health
}

# stop_all: interrupt every server of the session, and wait until it has ended.
stop_all() {
	local pids
	pids=$(jobs -p)
	[[ -z $pids ]] || kill -INT $pids 2>/dev/null
	local end=$((SECONDS + 15))
	while jobs %% >/dev/null 2>&1 && [[ -n $(jobs -pr) ]] && ((SECONDS < end)); do sleep 0.1; done
	return 0
}
