# make demo: the main job on the ResNet-50 script that ships with speedproof. make test: everything CI checks.
PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin

$(VENV)/ready: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --editable ".[demo,test]"
	touch $@

demo: $(VENV)/ready
	$(BIN)/speedproof demo --budget 4m

# docs/findings, from the docstrings of the findings
pages: $(VENV)/ready
	$(BIN)/python docs/make_pages.py

test: $(VENV)/ready
	$(BIN)/ruff check src tests benchmarks docs
	$(BIN)/ruff format --check src tests benchmarks docs
	$(BIN)/mypy
	$(BIN)/python -m pytest

clean:
	rm -rf $(VENV) .speedproof

.PHONY: demo pages test clean
