# A cluster of four nodes with eight GPUs each: two in leaf-1 and two in leaf-2, both under spine-1.
start_ares --node n1 --node-label leaf=leaf-1 --mock dgx-h100
for node in n2:leaf-1 n3:leaf-2 n4:leaf-2; do
	name=${node%:*}
	ares agent --node "$name" --node-label "leaf=${node#*:}" --mock dgx-h100 --server 127.0.0.1:9090 \
		--token-file ~/.local/share/ares/node.token --data-dir "$HOME/$name" >"$HOME/$name.log" 2>&1 &
done
await 60 sh -c 'test $(ares node list | grep -c " online ") = 4'
cat >domains.yaml <<'END'
domains:
  - {name: spine-1, level: spine, switch: 400GbE}
  - {name: leaf-1, level: leaf, parent: spine-1, switch: 100GbE, adjacent: [leaf-2], nodes: [n1, n2]}
  - {name: leaf-2, level: leaf, parent: spine-1, switch: 200GbE, nodes: [n3, n4]}
weights: {resource_availability: .7, topology_alignment: .1, domain_utilization: .1, historical_performance: .1}
END
ares topology apply -f domains.yaml

# plan NAME FIELDS...: where a job would run. Each field is a line of a job file.
plan() {
	printf '%s\n' "name: $1" 'command: ["true"]' "${@:2}" | ares job plan -f -
}

# nodes: the number of different nodes in the output of a plan.
nodes() { grep -oE '\bn[1-4]\b' | sort -u | wc -l; }
