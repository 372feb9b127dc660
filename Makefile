# Every target sets up what it needs; nothing has to be run before it.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: setup demo test lint bench clean

setup: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q --upgrade pip
	$(BIN)/pip install -q -c constraints.txt torch
	$(BIN)/pip install -q -c constraints.txt -e '.[dev]'
	touch $(STAMP)

demo: setup
	$(BIN)/kernelwright doctor --brief
	$(BIN)/kernelwright tune rms_norm --budget 60s

test: setup
	$(BIN)/pytest -q -n 2 -m 'not serial'
	$(BIN)/pytest -q -m serial

lint: setup
	$(BIN)/pre-commit run --all-files

bench: setup
	$(BIN)/kernelwright bench rms_norm softmax silu_and_mul --against eager,compile

clean:
	rm -rf $(VENV) build dist
