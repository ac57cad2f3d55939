#!/usr/bin/env bash
# Install the topology-aware scheduler into the Kubernetes cluster of the current context, or update it, and wait until
# it runs. Usage: scripts/deploy.sh [--image IMAGE] [--timeout SECONDS]
set -euo pipefail
cd "$(dirname "$0")/.."

# The lowest minor version of Kubernetes 1: MutatingAdmissionPolicy is stable since then.
lowest=36
default_image=ares-kube-scheduler:local
image=${ARES_KUBE_IMAGE:-$default_image}
timeout=120

fail() {
	echo "deploy.sh: $*" >&2
	exit 1
}

usage='usage: scripts/deploy.sh [--image IMAGE] [--timeout SECONDS]'
while [[ $# -gt 0 ]]; do
	case $1 in
	--image | --timeout)
		[[ $# -ge 2 ]] || fail "$1 needs a value; $usage"
		if [[ $1 == --image ]]; then image=$2; else timeout=$2; fi
		shift 2
		;;
	-h | --help)
		echo "$usage"
		exit 0
		;;
	*) fail "unknown argument $1; $usage" ;;
	esac
done
[[ $timeout =~ ^[1-9][0-9]*$ ]] || fail "--timeout $timeout: write a number of seconds, such as 120"
[[ $image =~ ^[A-Za-z0-9][A-Za-z0-9._/:@-]*$ ]] || fail "--image $image: write the name of an image, such as registry.example.com/ares-kube-scheduler:1.0"

command -v kubectl >/dev/null || fail 'kubectl is missing: install it, and configure access to the cluster'
context=$(kubectl config current-context 2>/dev/null || echo 'of the service account')
if ! version=$(kubectl get --raw /version 2>&1); then
	fail "the cluster (context $context) does not answer: check KUBECONFIG and kubectl config get-contexts. kubectl says: $version"
fi
major=$(sed -n 's/.*"major": *"\([0-9]*\).*/\1/p' <<<"$version")
minor=$(sed -n 's/.*"minor": *"\([0-9]*\).*/\1/p' <<<"$version")
[[ -n $major && -n $minor ]] || fail "the cluster (context $context) does not say its version, but: $version"
if ((major < 1 || major == 1 && minor < lowest)); then
	fail "Kubernetes $major.$minor is too old: the scheduler needs 1.$lowest or later, because its admission policies are stable since 1.$lowest. Upgrade the cluster, or choose another with kubectl config use-context"
fi

echo "installing $image into Kubernetes $major.$minor (context $context)"
if [[ $image == "$default_image" ]]; then
	kubectl apply -f deploy/
else
	cat deploy/*.yaml | sed "s|image: $default_image\$|image: $image|" | kubectl apply -f -
fi
if ! kubectl -n kube-system rollout status deployment/topology-scheduler --timeout "${timeout}s"; then
	kubectl -n kube-system get pods -l app=topology-scheduler >&2 || true
	fail "the scheduler did not start within $timeout s. Reasons: kubectl describe pods -n kube-system -l app=topology-scheduler, and kubectl logs -n kube-system -l app=topology-scheduler. If the image cannot be pulled, push it to a registry of the cluster and run scripts/deploy.sh --image NAME"
fi
