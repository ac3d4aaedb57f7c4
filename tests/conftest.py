"""What all tests share: options, and what a session counted and measured. Nothing heavy may be imported here: unit
tests start in milliseconds.
"""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from tests.cuda_emulator import fits_torch
from tests.multirank._tally import CHECKED, FIGURES
from tests.warm import WarmPython

RECORDS = pytest.StashKey[str]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("pycomms")
    group.addoption("--backend", default="nccl2", help="backend that the multi-rank tests run on (nccl2, gloo)")
    group.addoption("--long", action="store_true", help="run the long versions: 10,000 random operations, more trials")
    group.addoption(
        "--conformance",
        choices=("emulated", "real"),
        help="of tests/cuda_emulator: only what has to hold of any CUDA, on the emulator or on a real GPU",
    )
    group.addoption(
        "--hosts",
        type=int,
        default=1,
        help="hosts that the ranks of tests/multirank pretend to be on (TCP over loopback)",
    )
    group.addoption("--seed", type=int, default=None, help="seed of the random programs (default: fixed)")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "nccl2_only(reason): a promise that only our backend makes; gloo is not asked")
    config.addinivalue_line("markers", "needs_torch(version, what): what older torch has not")
    _heed_signals()
    config.stash[CHECKED] = Counter()
    config.stash[FIGURES] = []
    # Processes that tests kill leave the files of their flight recorder behind.
    if "PYCOMMS_FR_DIR" not in os.environ:
        config.stash[RECORDS] = os.environ["PYCOMMS_FR_DIR"] = tempfile.mkdtemp(prefix="pycomms-fr-", dir="/dev/shm")


def _heed_signals() -> None:
    """A shell has what it starts in the background ignore these, and children would inherit it: tests send them."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGQUIT) is signal.SIG_IGN:
        signal.signal(signal.SIGQUIT, signal.SIG_DFL)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    markers = list(item.iter_markers("needs_torch"))
    if not markers:
        return
    from pycomms import _C  # loads torch, which a test with this marker has anyway

    for marker in markers:
        version, what = marker.args
        if _parts(_C.torch_version) < _parts(version):
            pytest.skip(f"{what}: torch {version}, this is {_C.torch_version}")


def _parts(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")[:2]))


def pytest_unconfigure(config: pytest.Config) -> None:
    if RECORDS in config.stash:
        shutil.rmtree(config.stash[RECORDS], ignore_errors=True)
        del os.environ["PYCOMMS_FR_DIR"]


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A worker of xdist has the process that it works for show what it counted."""
    config = session.config
    if hasattr(config, "workeroutput"):
        checked, figures = config.stash[CHECKED], config.stash[FIGURES]
        config.workeroutput["counted"] = (dict(checked), figures)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    config: pytest.Config = node.config
    checked, figures = getattr(node, "workeroutput", {}).get("counted", ({}, []))
    everywhere: Counter[str] = config.stash[CHECKED]
    everywhere.update(checked)
    config.stash[FIGURES].extend(figures)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    checked = config.stash[CHECKED]
    if checked:
        rows = ", ".join(f"{op} {count}" for op, count in sorted(checked.items()))
        terminalreporter.write_line(f"combinations checked: {checked.total()} ({rows})")
    for figure in config.stash[FIGURES]:
        terminalreporter.write_line(figure)


@pytest.fixture(scope="session")
def long(pytestconfig: pytest.Config) -> bool:
    return bool(pytestconfig.getoption("--long"))


@pytest.fixture(scope="session")
def emulated_cuda() -> None:
    """For tests that run on the emulated CUDA."""
    if not fits_torch():
        pytest.skip("this torch is not built for CUDA 13, which the emulator stands in for")


@pytest.fixture(scope="session")
def warm_python() -> Iterator[str]:
    """An executable that programs with torch are started by instead of `sys.executable`: see tests/warm."""
    python = WarmPython()
    try:
        python.await_ready()
        yield str(python.executable)
    finally:
        python.close()
