"""Workers that use pycomms.ft, under an agent whose coordinator is in the test."""

from __future__ import annotations

from pathlib import Path

from pycomms.ft.core.messages import (
    Announce,
    Change,
    Died,
    EpochId,
    MemberId,
)

from ._fake_coordinator import FakeCoordinator
from ._running import Running, wait_for


def options(coordinator: FakeCoordinator, token: Path, *more: str) -> tuple[str, ...]:
    return (f"--coordinator={coordinator.address}", f"--token-file={token}", "--no-prefix", *more)


TRAIN = """
    import os, signal, sys
    from tests.ft.run.member import *
    from pycomms.ft.core.messages import Change
    member = Member()
    member.announce()
    member.settle()
    print("rank", SLOT, "start", INCARNATION, "pid", os.getpid(), flush=True)
    member.hear(Change)
    member.leave()
"""


def pid_of(job: Running, rank: int, start: int) -> int:
    return int(job.line(rf"rank {rank} start {start} pid (\d+)")[1])


def nonce_of(coordinator: FakeCoordinator, slot: int) -> str:
    return next(one.member.nonce for one in coordinator.heard if isinstance(one, Announce) and one.slot == slot)


def end_all(coordinator: FakeCoordinator, count: int) -> None:
    """Tells the members that live to end, when there are so many."""

    def living() -> set[MemberId]:
        heard = list(coordinator.heard)
        dead = {one.member for one in heard if isinstance(one, Died)}
        return {one.member for one in heard if isinstance(one, Announce)} - dead

    assert wait_for(lambda: len(living()) == count), living()
    for member in living():
        coordinator.send(member.host, Change(epoch=EpochId(1, 1), reason="end"), (member.nonce,))
