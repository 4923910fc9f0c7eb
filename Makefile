# Everything is done by tools/setup.py; `make setup PYTHON=python3.12` chooses the interpreter, and
# `make wheel PLATFORM=aarch64` the machine that a wheel is for.
PYTHON ?= python3
export PLATFORM

.PHONY: setup demo test test-all lint bench wheel lock
setup demo test test-all lint bench wheel lock:
	@$(PYTHON) tools/setup.py $@
