"""Fixtures of the tests on several hosts: the reason why they cannot run here, and that nothing is left behind."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from launch._netns.names import clusters
from launch.netns import reason_unavailable


@pytest.fixture(scope="session", autouse=True)
def _possible() -> None:
    reason = reason_unavailable()
    if reason is not None:
        pytest.skip(f"no hosts can be made here: {reason}")


@pytest.fixture(autouse=True)
def _nothing_left(_possible: None) -> Iterator[None]:
    yield
    assert [name.text for name in clusters() if name.pid == os.getpid()] == []
