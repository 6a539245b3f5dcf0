# The commands of Tandem. Each sets up what it needs, from nothing, and says what is missing.
#   make demo | demo-down | test | test-deep | test-keda | e2e | check | bench-policies | bench-engine | docs | generate | images | clean
SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
CLUSTER ?= embedded
VALUES ?=

CRD_DIRECTORIES := crds/generated helm/tandem/files/crds

help: ## this list
	@grep -E '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-16s %s\n", $$1, $$2}'

$(READY): requirements/dev.txt pyproject.toml
	@echo "==> Python environment in $(VENV)"
	$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "Tandem needs Python 3.11 or newer; set PYTHON=")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || { echo "python3-venv is missing: apt-get install python3-venv" >&2; exit 1; }
	$(BIN)/python -m pip install -q uv
	$(BIN)/python -m uv pip sync -q --python $(BIN)/python requirements/dev.txt
	$(BIN)/python -m uv pip install -q --python $(BIN)/python --no-deps -e .
	@touch $@

setup: $(READY) ## the Python environment only

demo: $(READY) ## the main job on this machine: cluster, real engines, load, both roles scaled (CLUSTER=current [VALUES=file]: yours)
	TANDEM_VALUES=$(VALUES) $(BIN)/python -m e2e.demo up --cluster $(CLUSTER)

demo-down: $(READY) ## end what `make demo` left running
	$(BIN)/python -m e2e.demo down --cluster $(CLUSTER)

# A real Prometheus and a real browser, for the tests that need them; they skip, loudly, where these cannot be installed.
prometheus chromium:
	@command -v $@ >/dev/null || { test "$$(id -u)" = 0 && command -v apt-get >/dev/null && { apt-get -qq update; \
	  RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends $@ >/dev/null; }; } \
	  || echo "$@ is not installed: the tests that need it will be skipped" >&2

test: $(READY) prometheus chromium ## unit, property and integration tests on a real etcd and kube-apiserver (no nodes)
	$(BIN)/python -m e2e.cluster binaries etcd kube-apiserver kube-controller-manager kube-scheduler kubectl kwok helm helm4
	# A file stays with one process, and each process has an API server of its own.
	$(BIN)/python -m pytest tests -m "not engine and not keda" -n auto --maxprocesses 4 --dist loadfile

# Properties that follow TANDEM_DEEP try 10,000 examples in place of 200, the others as many as they always do.
test-deep: $(READY) ## every property, those of the lifecycle and the autoscaler with 10,000 examples (hours)
	TANDEM_DEEP=1 $(BIN)/python -m pytest --timeout 0 -m "not engine and not integration" \
	  $$(grep -rlE 'hypothesis|tests.autoscaler.strategies' --include='test_*.py' tests | sort)

e2e: $(READY) prometheus ## real nodes, real engines
	# Before pytest, whose time limits are for the scenarios: on a new machine this takes a quarter of an hour.
	test "$(CLUSTER)" = current || { $(BIN)/python -m e2e.cluster up && $(BIN)/python -m e2e.images load; }
	CLUSTER=$(CLUSTER) $(BIN)/python -m pytest e2e/scenarios $(E2E_ARGS)

# Not in `make test` or `make e2e`: KEDA's 3,700 packages take ten minutes of two cores to compile.
test-keda: $(READY) prometheus ## a real KEDA ScaledObject owns a WorkerPool, on a real API server
	$(BIN)/python -m e2e.cluster binaries keda-operator keda-adapter
	$(BIN)/python -m pytest tests/integration/keda

bench-policies: $(READY) ## policies side by side in the simulator (build/bench/policies.json and pictures)
	$(BIN)/python -m tandem_autoscaler.benchmark $(BENCH_ARGS)

bench-engine: $(READY) ## the real engine: chunking, P/D, prefix caching, batching, late demotion (build/bench/engine.json; BENCH_ARGS=--quick)
	$(BIN)/python -m e2e.bench_engine $(BENCH_ARGS)

docs: $(READY) ## the documentation as a site, every link checked (build/docs)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

images: $(READY) ## build the images into the cache
	$(BIN)/python -m e2e.images build

generate: $(READY) ## CRDs and generated documentation from the models
	$(BIN)/python -m tandem_api.crd $(CRD_DIRECTORIES)
	$(BIN)/python -m tandem_api.troubleshooting docs/troubleshooting.md
	$(BIN)/python -m tandem_api.reference docs/reference.md --examples examples/reference/*.yaml
	$(BIN)/python -m helm.dashboards
	for part in operator autoscaler; do $(BIN)/python -m tandem_$$part.permissions helm/tandem/files/rbac/$$part.yaml; done

lock: $(READY) ## resolve the pinned requirements again
	$(BIN)/python -m uv pip compile -q --no-emit-index-url --no-header --no-annotate pyproject.toml -o requirements/control-plane.txt
	$(BIN)/python -m uv pip compile -q --no-emit-index-url --no-header --no-annotate pyproject.toml --group pyproject.toml:dev -o requirements/dev.txt

format: $(READY) ## format and mend what can be mended
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

check: $(READY) ## format, lint, types, import contracts, generated files, documentation, chart lint
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m tandem_api.crd --check $(CRD_DIRECTORIES)
	$(BIN)/python -m tandem_api.troubleshooting --check docs/troubleshooting.md
	$(BIN)/python -m tandem_api.reference --check docs/reference.md --examples examples/reference/*.yaml
	$(BIN)/python -m helm.dashboards --check
	for part in operator autoscaler; do $(BIN)/python -m tandem_$$part.permissions --check helm/tandem/files/rbac/$$part.yaml; done
	$(MAKE) --no-print-directory docs
	$(BIN)/python -m e2e.cluster binaries helm helm4
	for helm in helm helm4; do \
	  "$$($(BIN)/python -c 'from e2e.cluster import binaries; print(binaries.on_path())')/$$helm" lint --strict --quiet helm/tandem; done

clean: ## remove what the commands made in the tree (caches outside it stay)
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache

.PHONY: help setup demo demo-down test test-deep test-keda e2e bench-policies bench-engine docs images generate lock format check clean prometheus chromium
