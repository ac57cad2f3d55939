# Ares: one binary, built, tested and checked from here. `make` lists the targets.

SHELL       := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

MODULE  := github.com/ares-scheduler/ares
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
TOOLS   := $(CURDIR)/.bin
# Packages compiled at once.
P       ?= 2
# Packages tested at once, and parallel tests in each. Most of these tests wait for real processes, so that two cores have
# time for more than two of them.
TESTS_P ?= 3
PARALLEL ?= 4
# No cached results: the cache does not see that a binary which a test starts has changed.
GOTEST  := go test -p $(TESTS_P) -parallel $(PARALLEL) -count 1 -timeout 15m
# The packages that share memory between goroutines; `make test` runs these under the race detector.
SHARED  := ^$(MODULE)/(agent|api|audit|auth|client|control|history|notify|pki|rediscache|server|store)(/|$$)

# How long `make fuzz` tries each parser.
FUZZTIME ?= 10m

# Kubernetes for tests. kube-controller-manager is replaced by a small program of ours, which compiles in a fraction of the time.
KUBE_PROGRAMS := $(addprefix $(TOOLS)/kube/,kube-apiserver kube-scheduler kubelet kwok controllers)
KUBE_136      := $(TOOLS)/kube136/kube-apiserver
# The container runtime of the real kubelet. Debian's containerd 1.6 runs pods too, but has no CDI, which DRA needs.
CONTAINERD_PROGRAMS := $(addprefix $(TOOLS)/kube/,containerd containerd-shim-runc-v2 ctr)
KUBE_VERSION  := $(shell awk '$$1 == "k8s.io/kubernetes" { print $$2 }' tools/k8s/go.mod)

# What the tests need from outside. They fail without it; nothing is skipped.
export ARES_TEST_ETCD    := $(TOOLS)/etcd
export ARES_TEST_ETCDCTL := $(TOOLS)/etcdctl
export ARES_TEST_BIN     := $(CURDIR)/bin/ares
export ARES_TEST_FAILPOINTS := $(TOOLS)/failpoints/ares
export ARES_TEST_TOXIPROXY  := $(TOOLS)/toxiproxy
export ARES_TEST_VERSITYGW  := $(TOOLS)/versitygw
export ARES_TEST_VERSION    := $(VERSION)
export ARES_TEST_WITNESS    := $(TOOLS)/witness
export ARES_TEST_KUBE_BIN   := $(TOOLS)/kube
export ARES_TEST_KUBE_SCHEDULER := $(CURDIR)/bin/ares-kube-scheduler

# The directory for the data of tests: in memory if there is room. Tests kill processes, never the machine, so nothing
# depends on fsync; on a slow disk, etcd would miss its deadlines and tests would fail for that alone.
DISK   := $(or $(TMPDIR),/tmp)
MEMORY := $(shell test -w /dev/shm && test $$(df --output=avail --block-size=1G /dev/shm | tail -1) -ge 6 && echo /dev/shm || echo $(DISK))
test test-packages test-beside test-kube test-kube-136 bench-kube race robustness robustness-short chaos-federation failover bench-tiny mutations: export TMPDIR := $(MEMORY)

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: build
build: ## Build bin/ares, static, with the job supervisor inside; scheduler, worker and gpu-cli are links to it
	CGO_ENABLED=0 go build -p $(P) -trimpath -ldflags '-s -w' -o agent/run/supervisor.bin ./cmd/ares-supervisor
	CGO_ENABLED=0 go build -p $(P) -trimpath -tags embed_supervisor \
		-ldflags '-s -w -X $(MODULE)/cli.Version=$(VERSION)' -o bin/ares ./cmd/ares
	for name in scheduler worker gpu-cli; do ln -sfn ares bin/$$name; done

# Where `make install` installs: DESTDIR is the root of a package that is being built.
PREFIX  ?= /usr/local
DESTDIR ?=

.PHONY: install
install: build ## Install bin/ares, its manual pages and the completion of shells below PREFIX (/usr/local)
	tools/install bin/ares '$(DESTDIR)$(PREFIX)'

.PHONY: docker-build
docker-build: build kube-scheduler $(TOOLS)/etcd $(TOOLS)/etcdctl ## Build the images of docker-compose.yml and of the Kubernetes scheduler; no registry is needed
	@tools/needs busybox
	deploy/docker/build
	deploy/docker/build-kube

.PHONY: kube-scheduler
kube-scheduler: ## Build bin/ares-kube-scheduler, the scheduler of a Kubernetes cluster
	mkdir -p bin
	cd kube/plugin && CGO_ENABLED=0 go build -p $(P) -trimpath -ldflags '-s -w' -o $(CURDIR)/bin/ares-kube-scheduler $(MODULE)/kube/plugin/cmd/ares-kube-scheduler

.PHONY: deploy
deploy: ## Install the Kubernetes scheduler into the cluster of kubectl (ARES_KUBE_IMAGE for an image of a registry)
	scripts/deploy.sh

# The chart is the source of deploy/*.yaml and deploy/kustomize. Helm's library is in a module of its own.
.PHONY: chart
chart: ## Render deploy/*.yaml and deploy/kustomize from the Helm chart deploy/charts/ares
	cd tools/chart && CGO_ENABLED=0 go run -trimpath . ../..

.PHONY: chart-check
chart-check:
	cd tools/chart && CGO_ENABLED=0 go run -trimpath . --check ../.. && CGO_ENABLED=0 go test -trimpath -count 1 ./...

.PHONY: run
run: build ## Build and start a whole Ares on this machine
	bin/ares up

# What tests draw at random is drawn from here, so that what passed passes again;
# RAPID_SEED=0 draws anew each time.
export RAPID_SEED ?= 20261115

.PHONY: test
test: needs browser docker format vet build robustness-needs $(ARES_TEST_VERSITYGW) ## All Go and CLI tests, against real services
	$(GOTEST) ./archtest/...
	$(MAKE) chart-check
	$(MAKE) -j 2 test-packages test-beside
	$(GOTEST) ./test/chaos/faults # alone, because its sessions last only seconds

# These two run at the same time: most of their time, they wait for processes.
.PHONY: test-packages test-beside
test-packages:
	go list ./... | awk '$$0 !~ "/(archtest|test/chaos/(faults|federation|robustness))(/|$$)" && $$0 !~ "$(SHARED)"' | xargs -r $(GOTEST)
	go list ./... | awk '$$0 ~ "$(SHARED)"' | CGO_ENABLED=1 xargs -r $(GOTEST) -race
# What waits most comes first. Without a cache, it waits while the packages are compiled, and Kubernetes is compiled after that.
test-beside:
	$(TEST_ROBUSTNESS)
	$(TEST_FEDERATION)
	$(BENCH_TINY)
	$(MAKE) test-kube

# The runs of `make robustness`: so many minutes of faults for each seed, so many seeds at once.
SEEDS   ?= $(shell seq 1 40)
MINUTES ?= 3
AT_ONCE ?= 2
RECORDS ?= $(CURDIR)/.robustness

.PHONY: robustness
robustness: robustness-needs ## Faults by SEEDS, MINUTES each: real processes, recorded and judged
	test/chaos/seeds robustness $(RECORDS) $(MINUTES) $(AT_ONCE) $(SEEDS)

.PHONY: robustness-short
robustness-short: robustness-needs
	$(TEST_ROBUSTNESS)

define TEST_ROBUSTNESS
$(GOTEST) ./test/chaos/robustness/check ./test/chaos/robustness/trace
	$(GOTEST) -v -run TestFaultsBySeed ./test/chaos/robustness -seed 1 -length 3m
endef

# SEEDS is the number of seeds or a list of several, and SEED is a single one. The processes of one run are enough for a small machine.
FEDERATION_SEEDS   = $(or $(SEED),$(if $(filter file,$(origin SEEDS)),$(shell seq 1 20),$(if $(word 2,$(SEEDS)),$(SEEDS),$(shell seq 1 $(SEEDS)))))
FEDERATION_MINUTES = $(if $(filter file,$(origin MINUTES)),5,$(MINUTES))
FEDERATION_AT_ONCE = $(if $(filter file,$(origin AT_ONCE)),1,$(AT_ONCE))
FEDERATION_RECORDS = $(if $(filter file,$(origin RECORDS)),$(CURDIR)/.federation,$(RECORDS))

.PHONY: chaos-federation
chaos-federation: robustness-needs ## Faults by seed on a hub and three clusters (SEEDS=20 MINUTES=5, or SEED=7 for one): real processes, recorded and judged
	test/chaos/seeds federation $(FEDERATION_RECORDS) $(FEDERATION_MINUTES) $(FEDERATION_AT_ONCE) $(FEDERATION_SEEDS)

define TEST_FEDERATION
$(GOTEST) ./test/chaos/federation/verdict
$(GOTEST) -v -run TestFederationBySeed ./test/chaos/federation -seed 1 -length 3m
endef

.PHONY: failover
failover: build robustness-needs ## How long nothing is decided when a leader dies, and a job waits when its node does
	go run ./test/bench/runner -set failover -only '$(ONLY)'

.PHONY: robustness-needs
robustness-needs: failpoints $(ARES_TEST_ETCD) $(ARES_TEST_ETCDCTL) $(ARES_TEST_TOXIPROXY)
	@tools/needs ip nsenter
	CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -o $(ARES_TEST_WITNESS) ./test/chaos/robustness/witness

.PHONY: race
race: needs browser docker build $(ARES_TEST_ETCD) $(ARES_TEST_ETCDCTL) $(ARES_TEST_VERSITYGW) ## Every test under the race detector
	CGO_ENABLED=1 $(GOTEST) -race ./...

.PHONY: fuzz
fuzz: needs ## Fuzz every parser for FUZZTIME (10m), one after the other; the first finding ends it
	targets=$$(go test -list '^Fuzz' ./... | awk '/^Fuzz/ { found[n++] = $$1 } $$1 == "ok" { while (n) print $$2 "/" found[--n] }'); \
	for target in $$targets; do \
		echo "fuzz $$target for $(FUZZTIME)"; \
		go test -run '^$$' -fuzz "^$${target##*/}\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 10x "$${target%/*}"; \
	done

.PHONY: bench
bench: build $(ARES_TEST_ETCD) $(ARES_TEST_ETCDCTL) ## Benchmarks of the whole scheduler (ONLY=Submit for some); results go to docs/reference/performance.md
	go run ./test/bench/runner -set bench -only '$(ONLY)'

# The figures of these runs mean nothing. They show that every benchmark still works.
.PHONY: bench-tiny
bench-tiny: build robustness-needs ## Run every benchmark once, in a tiny form (ONLY=Submit for some)
	$(BENCH_TINY)

BENCH_TINY = go run ./test/bench/runner -tiny -only '$(ONLY)'

.PHONY: bench-kube
bench-kube: kube-scheduler kube-tools $(ARES_TEST_ETCD) ## Compare schedulers on 1,000 fake nodes of a real Kubernetes (ARGS='-nodes 50 -pods 100 -rounds 1' for a short form)
	cd kube/plugin && CGO_ENABLED=0 go run -trimpath $(MODULE)/kube/plugin/benchkube $(ARGS)

.PHONY: bench-turns
bench-turns: ## Measure submissions and placements in turns with another version: make bench-turns OLD=commit
	@test -n '$(OLD)' || { echo 'say which version to compare with: make bench-turns OLD=commit' >&2; exit 2; }
	go run ./test/bench/turns -old '$(OLD)'

.PHONY: bench-forecast
bench-forecast: ## Only the runtime forecasts of bench-sim: coverage and width by the number of earlier runs (ARES_TRACES)
	go run ./test/bench/runner -set sim -only ForecastByRuns

.PHONY: bench-sim
bench-sim: build ## Placement, waiting, fairness, prediction and scale on real traces (ARES_TRACES); results go to docs/reference/performance.md
	@test -d "$$ARES_TRACES/openb" -a -d "$$ARES_TRACES/philly" || { echo 'set ARES_TRACES to the folder with the traces: docs/guide/simulator.md says where they come from' >&2; exit 2; }
	go run ./test/bench/runner -set sim -only '$(ONLY)'

# With 40 seeds instead of 10, the confidence intervals are half as wide.
.PHONY: bench-sim-long
bench-sim-long: ## Queue orders on all generated workloads, those for tuning too, with 40 seeds: an hour or two
	ARES_REGIMES=all ARES_REGIMES_SEEDS=40 go test -run '^$$' -bench Regimes -benchtime 1x -timeout 6h ./test/bench/sim/regimes

# Everything that links k8s.io modules is compiled with one set of flags and without -race, or it is compiled twice.
KUBETEST := CGO_ENABLED=0 $(GOTEST) -trimpath

.PHONY: test-kube
test-kube: kube-scheduler kube-tools $(ARES_TEST_ETCD) ## The tests against a real Kubernetes: API server, controllers, fake nodes, a real kubelet
	$(TEST_KUBE)

define TEST_KUBE
@tools/needs ip runc cni-bridge
	cd kube/plugin && CGO_ENABLED=0 go vet -trimpath -p $(P) ./... && $(KUBETEST) ./...
endef

# The API server is of the lowest version that the scheduler supports. The controllers, KWOK and the scheduler stay as they are.
# PodGroups of Kubernetes itself are skipped: 1.36 has another version of them. So is the test beside kube-scheduler, because
# kube-scheduler 1.37 does not start with an API server of 1.36.
.PHONY: test-kube-136
test-kube-136: kube-scheduler kube-tools $(KUBE_136) $(ARES_TEST_ETCD) ## The end-to-end tests of the scheduler with the API server of Kubernetes 1.36; the first run compiles it
	for program in $(TOOLS)/kube/*; do [[ $$program == */kube-apiserver ]] || ln -sfn $$program $(dir $(KUBE_136)); done
	cd kube/plugin && ARES_TEST_KUBE_BIN=$(dir $(KUBE_136)) $(KUBETEST) -skip '^(TestPodGroup|TestPodGroupGrows|TestMixedPodGroup|TestOtherScheduler)$$' $(MODULE)/kube/plugin/e2e

.PHONY: failpoints
failpoints: ## Build .bin/failpoints/ares, which fails where and when a test wants it to
	go run ./test/chaos/failpoints -o $(TOOLS)/failpoints/ares

.PHONY: mutations
mutations: build $(ARES_TEST_ETCD) ## Take each safeguard away: a test must fail (ONLY=name for some)
	go run ./test/mutations -run '$(ONLY)'
	@[ -n '$(ONLY)' ] || { tools/needs spin gcc && test/model/federation/run mutations && test/model/rollback/run mutations; }

.PHONY: lint
lint: $(TOOLS)/golangci-lint ## Run the linters; the rules and their reasons are in .golangci.yml
	$(TOOLS)/golangci-lint run --concurrency $(P) ./...

.PHONY: model
model: ## Search the models of the protocols, and find the bugs planted in them
	@tools/needs spin gcc
	test/model/run check
	test/model/run mutations
	test/model/federation/run check
	test/model/federation/run mutations
	test/model/rollback/run check
	test/model/rollback/run mutations

.PHONY: verify
verify: $(TOOLS)/buf lint model chart-check ## Check contract, generated code, go.mod, lint, the shape of the tree and the protocol's model
	$(TOOLS)/buf lint
	tools/contract --check
	tools/generate --check
	go mod tidy -diff
	go test ./archtest/...

.PHONY: fix
fix: $(TOOLS)/golangci-lint ## Repair what a machine can: format, imports, go.mod
	go mod tidy
	$(TOOLS)/golangci-lint fmt ./...
	$(TOOLS)/golangci-lint run --concurrency $(P) --fix ./...

.PHONY: generate
generate: $(TOOLS)/buf ## Generate Go and OpenAPI from the .proto files
	tools/generate

.PHONY: contract
contract: $(TOOLS)/buf ## Take the .proto files of now as the contract that later changes must keep
	tools/contract

.PHONY: tools
tools: $(TOOLS)/buf $(TOOLS)/golangci-lint $(ARES_TEST_ETCD) $(ARES_TEST_ETCDCTL) $(ARES_TEST_TOXIPROXY) $(ARES_TEST_VERSITYGW) ## Build every pinned tool into .bin

.PHONY: kube-tools
kube-tools: $(KUBE_PROGRAMS) $(CONTAINERD_PROGRAMS) $(TOOLS)/kube/workloads ## Build Kubernetes for tests into .bin/kube: minutes once, then kept until tools/k8s, tools/containerd or tools/workloads changes

.PHONY: clean
clean: ## Remove what was built (the tools in .bin stay)
	rm -rf bin coverage agent/run/supervisor.bin

# Steps of the targets above.

.PHONY: needs
needs:
	@tools/needs curl jq gcc redis-server initdb mkfs.ext4 psql ip unshare setpriv pkill zsh fish runc podman busybox

.PHONY: browser
browser:
	@tools/needs chromium

.PHONY: docker
docker:
	@tools/needs dockerd docker-compose busybox ip

.PHONY: format
format:
	@bad=$$(find . \( -name node_modules -o -name .bin \) -prune -o -name '*.go' -print0 | xargs -0r gofmt -l); \
	if [ -n "$$bad" ]; then printf 'not formatted by gofmt (make fix):\n%s\n' "$$bad" >&2; exit 1; fi

.PHONY: vet
vet:
	go vet -p $(P) ./...

# Each group of tools is a module of its own, so that none bends the versions of another or of Ares.
tool = cd $(1) && CGO_ENABLED=0 go build -p $(P) -trimpath -o $(2) $(3) && touch $@

$(TOOLS)/buf: tools/proto/go.mod tools/proto/go.sum tools/proto/protoimports/main.go
	mkdir -p $(TOOLS)
	$(call tool,tools/proto,$(TOOLS)/,tool ./protoimports)
	rm -rf $(TOOLS)/proto && $(TOOLS)/protoimports $(TOOLS)/proto

$(TOOLS)/golangci-lint: tools/lint/go.mod tools/lint/go.sum
	mkdir -p $(TOOLS)
	$(call tool,tools/lint,$@,tool)

$(TOOLS)/etcd: tools/etcd/go.mod tools/etcd/go.sum
	mkdir -p $(TOOLS)
	$(call tool,tools/etcd,$@,go.etcd.io/etcd/server/v3)

$(TOOLS)/toxiproxy: tools/toxiproxy/go.mod tools/toxiproxy/go.sum
	mkdir -p $(TOOLS)
	$(call tool,tools/toxiproxy,$@,tool)

$(TOOLS)/versitygw: tools/versitygw/go.mod tools/versitygw/go.sum
	mkdir -p $(TOOLS)
	$(call tool,tools/versitygw,$@,tool)

$(TOOLS)/etcdctl: tools/etcd/go.mod tools/etcd/go.sum
	mkdir -p $(TOOLS)
	$(call tool,tools/etcd,$@,go.etcd.io/etcd/etcdctl/v3)

# The version is linked in as in upstream's builds; without it the programs would call themselves v0.0.0.
$(KUBE_PROGRAMS) &: tools/k8s/go.mod tools/k8s/go.sum $(wildcard tools/k8s/controllers/*.go)
	mkdir -p $(TOOLS)/kube
	cd tools/k8s && CGO_ENABLED=0 go build -p $(P) -trimpath \
		-ldflags '-s -w -X k8s.io/component-base/version.gitVersion=$(KUBE_VERSION)' -o $(TOOLS)/kube/ tool ./controllers
	touch $(KUBE_PROGRAMS)

$(CONTAINERD_PROGRAMS) &: tools/containerd/go.mod tools/containerd/go.sum
	mkdir -p $(TOOLS)/kube
	cd tools/containerd && CGO_ENABLED=0 go build -p $(P) -trimpath -ldflags '-s -w' -o $(TOOLS)/kube/ tool
	touch $(CONTAINERD_PROGRAMS)

$(TOOLS)/kube/workloads: tools/workloads/go.mod tools/workloads/go.sum $(wildcard tools/workloads/*.go)
	mkdir -p $(TOOLS)/kube
	cd tools/workloads && CGO_ENABLED=0 go build -p $(P) -trimpath -ldflags '-s -w' -o $@ .

$(KUBE_136): tools/k8s136/go.mod tools/k8s136/go.sum
	mkdir -p $(dir $@)
	cd tools/k8s136 && CGO_ENABLED=0 go build -p $(P) -trimpath \
		-ldflags "-s -w -X k8s.io/component-base/version.gitVersion=$$(awk '$$1 == "k8s.io/kubernetes" { print $$2 }' go.mod)" -o $(dir $@) tool
	touch $@
