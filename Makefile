# Every verb here is also what CI calls. `make help` lists them.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STUBS := deviceplugin/api/v1beta1/api.proto deviceplugin/api/podresources/v1/api.proto deviceplugin/api/amdexporter/v1/api.proto

.DEFAULT_GOAL := help

# Stamps hold the install: without a change of setup.cfg a second run needs no network.
$(VENV)/.installed: setup.cfg pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed; set PYTHON=/path/to/python3.11" >&2; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	touch $@

$(VENV)/.dev: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	touch $@

.PHONY: help
help: ## list the verbs
	@awk -F':.*## ' '/^[a-z-]+:.*## / {printf "%-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: run
run: $(VENV)/.installed ## a simulated node with eight GPUs, served to a simulated kubelet
	@$(BIN)/deviceplugin simulate

.PHONY: test
test: $(VENV)/.dev ## all everyday tests
	$(BIN)/python -m pytest

.PHONY: lint
lint: $(VENV)/.dev ## style, types, import contracts, fresh stubs and schema
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy -p deviceplugin
	$(BIN)/lint-imports
	$(BIN)/python -m pytest -q tests/unit/test_generated.py

.PHONY: format
format: $(VENV)/.dev ## put the code into its one form
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

.PHONY: stubs
stubs: $(VENV)/.dev ## generate api/**/*_pb2* from api/**/api.proto
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/python -m grpc_tools.protoc -I. --python_out=. --grpc_python_out=. --mypy_out=. --mypy_grpc_out=. $(STUBS)

.PHONY: schema
schema: $(VENV)/.dev ## generate configs/*schema.json from config/schema_*.py
	$(BIN)/python -m deviceplugin.config.schema nvidia > configs/schema.json
	$(BIN)/python -m deviceplugin.config.schema amd > configs/amd.schema.json

LOCK := $(BIN)/uv pip compile --quiet --universal --generate-hashes --python-version 3.11 --no-annotate --custom-compile-command "make lock"

.PHONY: lock
lock: $(VENV)/.dev ## pin what the image installs, for every platform, in daemonset/image/
	$(LOCK) setup.cfg --output-file daemonset/image/runtime.txt
	$(BIN)/python -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["build-system"]["requires"], sep="\n")' | $(LOCK) - --output-file daemonset/image/build.txt

.PHONY: docs
docs: $(VENV)/.dev ## write the generated tables of the docs
	$(BIN)/python docs/generate.py

.PHONY: bench
bench: $(VENV)/.dev ## the figures, as a table and as JSON in build/bench.json
	$(BIN)/python -m bench

# Kubelets that run all scenarios, kubelets that run the smoke ones, and which scenarios.
FULL ?= 1.34 1.37 simulated-1.36 simulated-1.37
SMOKE ?= 1.36
SCENARIOS ?= tests/kubelet
# Most of a scenario is waiting: more of them at a time than there are cores.
WORKERS ?= 6
# A real kubelet has time limits of its own: what fails once on a busy machine is tried once more,
# and said to be; what fails twice is a fault.
RERUNS ?= 1
KUBELET_TESTS := $(BIN)/python -m pytest -q -raR --reruns $(RERUNS) --full "$(FULL)" --smoke "$(SMOKE)"

.PHONY: test-kubelet
test-kubelet: $(VENV)/.dev ## scenarios on real device managers (Go, root); FULL=1.37 SMOKE= SCENARIOS=tests/kubelet/test_x.py
	$(BIN)/python -m tests.kubelet.build $(FULL) $(SMOKE)
	$(KUBELET_TESTS) -m "not figures" -n $(WORKERS) --dist worksteal $(SCENARIOS) || test $$? -eq 5
	$(KUBELET_TESTS) -m figures $(SCENARIOS) || test $$? -eq 5

.PHONY: cluster-packages
cluster-packages: $(VENV)/.dev ## install what test-cluster takes of Debian: runc, buildah, network plugins
	$(BIN)/python -m tests.cluster packages

.PHONY: test-cluster
test-cluster: $(VENV)/.dev ## the image and the manifests on a real single-node Kubernetes (Go, root); KEEP_CLUSTER=1 leaves it up
	$(BIN)/python -m pytest -raR --reruns $(RERUNS) tests/cluster

.PHONY: pin-kubelet
pin-kubelet: $(VENV)/.dev ## pin the modules of the releases in tests/kubelet/releases.py anew
	$(BIN)/python -m tests.kubelet.build --refresh

.PHONY: test-hardware
test-hardware: $(VENV)/.dev ## on a machine with an NVIDIA GPU: serve, allocate, compare with nvidia-smi
	$(BIN)/python -m pytest -ra tests/hardware

.PHONY: coverage
coverage: $(VENV)/.dev ## line and branch coverage of the everyday tests
	$(BIN)/coverage run -m pytest
	$(BIN)/coverage combine -q
	$(BIN)/coverage report

.PHONY: wheel
wheel: $(VENV)/.dev ## build the wheel into dist/
	$(BIN)/python -m build --wheel --outdir dist

.PHONY: clean
clean: ## remove what was built and installed here
	rm -rf $(VENV) build dist *.egg-info
