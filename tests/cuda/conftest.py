"""Fixtures: a pool of processes that run on the emulator."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cuda_emulator import fits_torch
from tests.multirank._harness import Pool, Ranks

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def ranks(pytestconfig: pytest.Config) -> Iterator[Ranks]:
    if not fits_torch():
        pytest.skip("this torch is not built for CUDA 13, which the emulator stands in for")
    pool = Pool(preload=["tests.cuda._preload"])
    try:
        yield Ranks(pool, pytestconfig.getoption("--backend"))
    finally:
        pool.close()
