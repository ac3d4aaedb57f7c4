"""What is made of environment variables."""

from __future__ import annotations

from pycomms.doctor import settings
from pycomms.doctor.finding import Finding, Level

from ._given import by_name


def judge(**environment: str) -> dict[str, Finding]:
    return by_name(settings.judge({"HOME": "/root", **environment}))


def test_none_is_set() -> None:
    assert judge()["variables"].level is Level.OK


def test_those_that_are_read() -> None:
    found = judge(PYCOMMS_CONNECT="eager", TORCH_NCCL_RANKS_PER_ROOT="64", PYCOMMS_SLOT="1", PYCOMMS_CHAOS="x")
    assert {one.level for one in found.values()} == {Level.OK}
    assert found["PYCOMMS_CONNECT"].text == "'eager'"


def test_values_that_would_be_refused() -> None:
    found = judge(PYCOMMS_CONNECT="soon", PYCOMMS_FR_ENTRIES="-1", PYCOMMS_RECOVERY_DEADLINE="long")
    assert {one.level for one in found.values()} == {Level.PROBLEM}
    assert "must be background, eager or lazy, not 'soon'" in found["PYCOMMS_CONNECT"].text


def test_those_that_nobody_reads() -> None:
    found = judge(PYCOMMS_SOCKET_IFNAMES="eth0", PYCOMMS_SPEED="fast")
    assert (found["PYCOMMS_SOCKET_IFNAMES"].level, found["PYCOMMS_SPEED"].level) == (Level.PROBLEM, Level.NOTE)
    assert found["PYCOMMS_SOCKET_IFNAMES"].todo == "is PYCOMMS_SOCKET_IFNAME meant?"
