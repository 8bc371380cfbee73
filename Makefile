# `make demo` and `make test` set up all they need in .venv: Python packages, and a Java runtime if there is none.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin

.PHONY: demo test test-slow lint bench docs-examples clean

demo: $(VENV)/ready
	$(BIN)/dpspark demo

test: $(VENV)/ready
	$(BIN)/python -m pytest -m "not slow"

test-slow: $(VENV)/ready
	$(BIN)/python -m pytest -m slow

lint: $(VENV)/ready
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

bench: $(VENV)/ready
	$(BIN)/dpspark bench gram
	$(BIN)/dpspark bench gram --set wide

docs-examples: $(VENV)/ready
	$(BIN)/python docs/generate.py

$(VENV)/ready: setup.py conf/constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c conf/constraints.txt -e '.[java,bench,plot,postgres,sign,dev]'
	touch $@

clean:
	rm -rf $(VENV) build dist *.egg-info demo
