"""Fixtures of the multi-rank tests: one pool of warm worker processes per session."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

from ._harness import Pool, Ranks
from ._tally import CHECKED, FIGURES

if TYPE_CHECKING:
    from collections.abc import Iterator


def pytest_configure(config: pytest.Config) -> None:
    config.stash[CHECKED] = Counter()
    config.stash[FIGURES] = []


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    checked = config.stash[CHECKED]
    if checked:
        rows = ", ".join(f"{op} {count}" for op, count in sorted(checked.items()))
        terminalreporter.write_line(f"combinations checked: {checked.total()} ({rows})")
    for figure in config.stash[FIGURES]:
        terminalreporter.write_line(figure)


@pytest.fixture(scope="session")
def ranks(pytestconfig: pytest.Config) -> Iterator[Ranks]:
    pool = Pool()
    try:
        yield Ranks(pool, pytestconfig.getoption("--backend"))
    finally:
        pool.close()


@pytest.fixture(scope="session")
def long(pytestconfig: pytest.Config) -> bool:
    return bool(pytestconfig.getoption("--long"))


@pytest.fixture(autouse=True)
def _only_ours(request: pytest.FixtureRequest) -> None:
    marker = request.node.get_closest_marker("nccl2_only")
    if marker and request.config.getoption("--backend") != "nccl2":
        pytest.skip(marker.args[0])
