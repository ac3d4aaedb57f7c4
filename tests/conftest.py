"""Options that all tests share. Nothing heavy may be imported here: unit tests start in milliseconds."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("pycomms")
    group.addoption("--backend", default="nccl2", help="backend that the multi-rank tests run on (nccl2, gloo)")
    group.addoption("--long", action="store_true", help="run the long versions: 10,000 random operations, more trials")
    group.addoption("--seed", type=int, default=None, help="seed of the random programs (default: fixed)")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "nccl2_only(reason): a promise that only our backend makes; gloo is not asked")
