"""A coordinator that is in the test, and the secret that agents prove to it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pycomms.ft.coordinator.auth import make_token

from ._fake_coordinator import FakeCoordinator


@pytest.fixture
def token(tmp_path: Path) -> Path:
    make_token(tmp_path / "token")
    return tmp_path / "token"


@pytest.fixture
def coordinator(token: Path) -> Iterator[FakeCoordinator]:
    with FakeCoordinator(token) as coordinator:
        yield coordinator
