"""Fixtures of the multi-rank tests: one pool of warm worker processes per session."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ._harness import Pool, Ranks

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def ranks(pytestconfig: pytest.Config) -> Iterator[Ranks]:
    pool = Pool(hosts=pytestconfig.getoption("--hosts"))
    try:
        yield Ranks(pool, pytestconfig.getoption("--backend"))
    finally:
        pool.close()


@pytest.fixture(autouse=True)
def _only_ours(request: pytest.FixtureRequest) -> None:
    marker = request.node.get_closest_marker("nccl2_only")
    if marker and request.config.getoption("--backend") != "nccl2":
        pytest.skip(marker.args[0])
