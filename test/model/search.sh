# The search behind `run` of each model: it is sourced, after these are set.
#
#   here            directory of the model
#   model           its main file
#   configurations  name | parameters
#   mutations       planted bug, or several by + | parameters | property that must fail, or "none"
#   memory_mb       bound on one search
#   seconds         bound on one search, of processor time: a busy machine changes no verdict
# shellcheck shell=bash disable=SC2154 # they are set by the script that sources this file

need() {
	command -v "$1" >/dev/null && return
	echo "run: $1 is missing: install it (Debian: apt install spin gcc)" >&2
	exit 2
}

trim() { sed 's/^ *//; s/ *$//' <<<"$1"; }

# build PARAMETERS COMPILER-FLAGS makes ./pan in the scratch directory.
build() {
	rm -f pan pan.* $model.trail
	# shellcheck disable=SC2086 # both are lists
	spin $1 -a "$model" >spin.out 2>&1 || { cat spin.out >&2; exit 1; }
	# shellcheck disable=SC2086
	gcc -w -DNOFAIR -DVECTORSZ=1024 -DMEMLIM=$memory_mb $2 -o pan pan.c
}

# search PAN-FLAGS sets: stored, depth, cpu, verdict (complete, error, or why it is not complete).
search() {
	local status=0
	# -E: a state in which nothing moves is for the judge in the model.
	# shellcheck disable=SC2086
	{ TIMEFORMAT=%U; time bash -c "ulimit -t $seconds; exec ./pan -E -m2000000 $1" >pan.out 2>&1 || status=$?; } 2>cpu.out
	cpu=$(tail -n 1 cpu.out)
	stored=$(awk '/states, stored/ { print $1; exit }' pan.out)
	depth=$(sed -n 's/.*depth reached \([0-9]*\).*/\1/p' pan.out | head -n 1)
	if [ -e $model.trail ]; then
		verdict=error
	elif [ $status -gt 128 ]; then
		verdict="TRUNCATED after $cpu s"
	elif grep -q 'MEMLIM' pan.out; then
		verdict="TRUNCATED at $memory_mb MB"
	elif grep -q 'max search depth too small' pan.out; then
		verdict="TRUNCATED at the depth bound"
	elif [ $status -eq 0 ] && grep -q 'errors: 0' pan.out && ! grep -q 'Search not completed' pan.out; then
		verdict=complete
	else
		cat pan.out >&2
		verdict="TRUNCATED, see above"
	fi
}

# examine PARAMETERS FLAGS-FOR-LTL FLAGS-FOR-ASSERTIONS builds and searches.
examine() {
	if [[ $1 == *-DENDS* ]]; then
		build "$1" "$2"
		search "-a -N ends"
	else
		build "$1" "$3"
		search ""
	fi
}

# story PARAMETERS prints a counterexample, a line for each step.
story() {
	# shellcheck disable=SC2086
	spin -B -T $1 -t "$model" 2>&1 | sed -n 's/^[[:space:]]*//; /^$/d; /^#processes/q; p' | grep -Ev '^(spin: trail ends|ltl |Never claim )' || true
}

# property STORY names what failed, by the comment beside the assertion.
property() {
	local where
	if grep -q 'acceptance cycle' pan.out; then
		echo LTL
		return
	fi
	where=$(sed -n 's/^spin: \([a-z]*\.pml\):\([0-9]*\), Error: assertion violated.*/\1 \2/p' <<<"$1" | head -n 1)
	[ -n "$where" ] || { echo "?"; return; }
	# shellcheck disable=SC2086
	set -- $where
	sed -n "$2p" "$1" | sed -n 's|.*/\* \([A-Z][0-9]\).*|\1|p'
}

check() {
	local failed=0 row name parameters
	printf '%-24s %10s %7s %8s  %s\n' configuration states depth 'cpu s' verdict
	for row in "${configurations[@]}"; do
		IFS='|' read -r name parameters <<<"$row"
		name=$(trim "$name")
		examine "$parameters" "-O2" "-O2 -DSAFETY"
		printf '%-24s %10s %7s %8s  %s\n' "$name" "${stored:-?}" "${depth:-?}" "$cpu" "$verdict"
		if [ "$verdict" = error ]; then
			failed=1
			story "$parameters"
		elif [ "$verdict" != complete ]; then
			failed=1
		fi
	done
	[ $failed -eq 0 ] || { echo "run: a configuration failed or was not searched to its end" >&2; exit 1; }
}

mutate() {
	local failed=0 row bug parameters want told got verdict_line steps
	printf '%-22s %-6s %-6s %10s %6s %8s  %s\n' 'planted bug' must got states steps 'cpu s' verdict
	for row in "${mutations[@]}"; do
		IFS='|' read -r bug parameters want <<<"$row"
		bug=$(trim "$bug") want=$(trim "$want")
		if [ -n "${1:-}" ] && [ "$bug" != "$1" ]; then continue; fi
		parameters="-D${bug//+/ -D} $parameters"
		examine "$parameters" "-O1" "-O1 -DSAFETY -DBFS" # breadth first: the shortest counterexample
		got=none told="" steps=-
		if [ "$verdict" = error ]; then
			told=$(story "$parameters")
			got=$(property "$told")
			steps=$(grep -c -v '^spin: ' <<<"$told" || true)
		elif [ "$verdict" != complete ]; then
			got="?"
		fi
		verdict_line=found
		[ "$want" != none ] || verdict_line="redundant here: $verdict"
		if [ "$got" != "$want" ]; then
			verdict_line="NOT AS EXPECTED ($verdict)"
			failed=1
		fi
		printf '%-22s %-6s %-6s %10s %6s %8s  %s\n' "$bug" "$want" "$got" "${stored:-?}" "$steps" "$cpu" "$verdict_line"
		[ -z "${1:-}" ] || echo "$told"
	done
	[ $failed -eq 0 ] || { echo "run: a planted bug was not found, or not as expected: the model has lost its teeth" >&2; exit 1; }
}

main() {
	need spin
	need gcc
	scratch=$(mktemp -d)
	trap 'rm -rf "$scratch"' EXIT
	cp "$here"/*.pml "$scratch"
	cd "$scratch"

	case "${1:-}" in
	check) check ;;
	mutations) mutate ;;
	trail) mutate "${2:?run trail BUG: name a planted bug}" ;;
	*)
		echo "usage: run check | mutations | trail BUG" >&2
		exit 2
		;;
	esac
}
