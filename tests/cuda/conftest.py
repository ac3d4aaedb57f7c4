"""Fixtures: a pool of processes that run on the emulator."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.multirank._harness import Pool, Ranks

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def ranks(pytestconfig: pytest.Config, emulated_cuda: None) -> Iterator[Ranks]:
    pool = Pool(preload=["tests.cuda._preload"])
    try:
        yield Ranks(pool, pytestconfig.getoption("--backend"))
    finally:
        pool.close()
