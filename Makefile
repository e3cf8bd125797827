# make plan   sets up .venv and answers the shipped workload
# make test   sets up .venv and runs lint, types, import contracts and all tests
SHELL := /bin/sh
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
WORKLOAD ?= examples/llama-3.3-70b-chat.yaml
QUICK := tests/properties tests/unit tests/architecture
QUESTIONS ?= 200
# Tests that check more random cases where THOROUGH is set, as tests/effort.py says.
THOROUGH_TESTS = $(shell grep -lr --include "test_*.py" "tests.effort import" tests)
MUTANTS ?= 200
# Pages show what the pinned versions print: another solver finds other fleets at the same cost.
# Without the extra `mcp`, whose packages need a newer pydantic than ours does: its tests are left out there.
LOWEST_TESTS ?= --ignore tests/contracts/test_docs_examples.py --ignore src/gpufleet/mcp/server.py
TRIES ?= 1000
SEED ?= 1
CASES ?= 1800
PYTHONS ?= python3.10 python3.11 python3.12 python3.13

.PHONY: help plan test quick lint types contracts pytest test-clocks test-lowest brute-force mutants fuzz fuzz-web docs page-pictures site accuracy closed-form size bench constraints clean

help:
	@echo "make plan      set up and answer $(WORKLOAD)"
	@echo "make test      set up and run lint, types, import contracts and tests"
	@echo "make quick     run unit tests, laws and architecture tests but for the slow ones, and name the slowest 20"
	@echo "make test-clocks  run the tests that may know what day it is under five other clocks"
	@echo "make test-lowest  run the tests but for those of pages on the lowest versions that pyproject.toml allows"
	@echo "make brute-force  check flips and reasons of 200 random questions by planning from nothing, laws on more random cases"
	@echo "make mutants   change the code in 200 places, one at a time, and list what no test notices"
	@echo "make fuzz      ask $(TRIES) hostile questions of every verb and file (TRIES=20000 SEED=2)"
	@echo "make fuzz-web  send $(CASES) random bodies to gpufleet serve by its description (CASES=9000 SEED=2)"
	@echo "make docs      regenerate the output shown in README.md and docs/"
	@echo "make page-pictures  draw the pictures of a page of HTML in docs/ again (Chromium)"
	@echo "make site      build the documentation as a site in build/site"
	@echo "make accuracy  score all measurements, write docs/accuracy.md and its picture"
	@echo "make closed-form  compare the closed form with replays of 300 questions, write docs/closed_form.md"
	@echo "make bench     time a plan and an estimate, count the configurations rated"
	@echo "make constraints  write the newest versions of packages for $(PYTHONS)"
	@echo "make size      installed size and number of packages"
	@echo "make clean     remove .venv and caches"

plan: $(VENV)/installed.stamp
	@$(BIN)/gpufleet plan serve --workload $(WORKLOAD)

.NOTPARALLEL:
# Tests run hundreds of commands; each would compile the package anew where bytecode is not kept.
unexport PYTHONDONTWRITEBYTECODE

test: lint types contracts pytest

lint: $(VENV)/developer.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/developer.stamp
	$(BIN)/mypy

contracts: $(VENV)/developer.stamp
	$(BIN)/lint-imports --no-logo

pytest: $(VENV)/developer.stamp
	PYTHONHASHSEED=0 $(BIN)/python -m pytest --numprocesses auto --dist worksteal

quick: $(VENV)/developer.stamp
	PYTHONHASHSEED=0 $(BIN)/python -m pytest $(QUICK) -m "not slow" --hypothesis-profile quick --durations 20 \
		--numprocesses auto --dist worksteal

test-clocks: $(VENV)/developer.stamp
	@$(BIN)/python tools/clocks.py $(CLOCK_TESTS)

test-lowest: $(VENV)/developer.stamp
	@mkdir -p build
	@$(BIN)/python tools/floors.py > build/lowest.txt
	@$(PYTHON) tools/environment.py create build/lowest
	@build/lowest/bin/python tools/environment.py install-under build/lowest.txt build/lowest --editable '.[test,simulate,solve,web]'
	PYTHONHASHSEED=0 build/lowest/bin/python -m pytest --numprocesses auto --dist worksteal $(LOWEST_TESTS)

brute-force: $(VENV)/developer.stamp
	$(BIN)/python -m pytest tests/properties/test_answers_by_brute_force.py tests/properties/test_promises_and_changes.py \
		--questions $(QUESTIONS)
	THOROUGH=1 PYTHONHASHSEED=0 $(BIN)/python -m pytest $(THOROUGH_TESTS) --numprocesses auto --dist worksteal

mutants: $(VENV)/developer.stamp
	@$(BIN)/python -m tools.mutants --count $(MUTANTS)

fuzz: $(VENV)/developer.stamp
	@$(BIN)/python -m tests.hostile.fuzz --tries $(TRIES) --seed $(SEED)

fuzz-web: $(VENV)/developer.stamp
	@$(PYTHON) tools/environment.py create build/fuzz-web
	@$(PYTHON) tools/environment.py install build/fuzz-web 'schemathesis>=4.1'
	@NO_PROXY=127.0.0.1 build/fuzz-web/bin/python -m tools.fuzz_web $(BIN)/gpufleet --cases $(CASES) --seed $(SEED)

docs: $(VENV)/developer.stamp
	$(BIN)/python tools/docs_examples.py --write

page-pictures: $(VENV)/developer.stamp
	@$(BIN)/python -m tools.page_pictures

site: $(VENV)/site.stamp
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet --strict
	@echo "build/site/index.html"

accuracy: $(VENV)/installed.stamp
	@$(BIN)/python -m tools.accuracy_page

closed-form: $(VENV)/installed.stamp
	@$(BIN)/python -m tools.closed_form_page

bench: $(VENV)/installed.stamp
	@$(BIN)/python benchmarks/plan_serve.py
	@$(BIN)/python benchmarks/estimate.py
	@$(BIN)/python benchmarks/offer_query.py
	@$(BIN)/python benchmarks/simulate.py

size:
	@$(PYTHON) tools/environment.py create build/size
	@build/size/bin/python tools/environment.py install build/size .
	@build/size/bin/python tools/environment.py measure

constraints:
	@$(PYTHON) tools/constraints.py $(PYTHONS)

$(VENV)/created.stamp:
	@$(PYTHON) tools/environment.py create $(VENV)
	@touch $@

$(VENV)/installed.stamp: $(VENV)/created.stamp pyproject.toml constraints.txt
	@$(BIN)/python tools/environment.py install $(VENV) --editable '.[refresh,simulate,solve,mcp,web]'
	@touch $@

$(VENV)/developer.stamp: $(VENV)/created.stamp pyproject.toml constraints.txt
	@$(BIN)/python tools/environment.py install $(VENV) --editable '.[dev,simulate,solve,mcp,web]'
	@touch $@ $(VENV)/installed.stamp

$(VENV)/site.stamp: $(VENV)/created.stamp pyproject.toml constraints.txt
	@$(BIN)/python tools/environment.py install $(VENV) --editable '.[docs]'
	@touch $@ $(VENV)/installed.stamp

clean:
	rm -rf $(VENV) build .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
