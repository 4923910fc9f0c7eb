# Everything is done by tools/setup.py; `make setup PYTHON=python3.12` chooses the interpreter.
PYTHON ?= python3

.PHONY: setup demo test test-all lint bench wheel lock
setup demo test test-all lint bench wheel lock:
	@$(PYTHON) tools/setup.py $@
