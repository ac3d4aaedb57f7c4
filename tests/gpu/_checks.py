"""A check is a function that runs on every rank and asserts; this runs a list of them, at every number of ranks.

Used by the parent only.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tests.multirank._harness import Ok, RanksError
from tests.multirank._harness.outcome import Stuck

from ._rank import play
from ._report import AreaReport
from ._setting import Deadline, Setting

_PATIENCE_S = 15.0  # a check that takes longer hangs


@dataclass(frozen=True, kw_only=True)
class Check:
    run: Callable[..., Any]  # run(rank, world, *args)
    args: tuple[Any, ...] = ()
    at_least: int = 2  # ranks
    bound: bool = False  # the group is given a device_id
    group_timeout: float = 20.0  # s
    tells_failures: bool = False  # what it returns is a list of them
    kills_last: bool = False  # all ranks tell "ready", then the last one is killed

    def __str__(self) -> str:
        return " ".join([self.run.__name__, *map(str, self.args)])


def run_checks(setting: Setting, report: AreaReport, deadline: Deadline, checks: Sequence[Check]) -> None:
    for check in checks:
        if setting.worlds[-1] < check.at_least:
            report.skipped.append(f"needs {check.at_least} ranks: {setting.why_worlds}")
    for world in setting.worlds:
        for check in checks:
            if world >= check.at_least:
                _run(setting, report, deadline, check, world)


def _run(setting: Setting, report: AreaReport, deadline: Deadline, check: Check, world: int) -> None:
    name = f"{check}, {world} ranks"
    seconds = min(_PATIENCE_S, deadline.left())
    if deadline.left() < 1.0:
        report.out_of_time.append(name)
        return
    try:
        with setting.ranks.start(
            play,
            check.run,
            check.bound,
            *check.args,
            world=world,
            init=False,
            timeout=seconds,
            group_timeout=check.group_timeout,
        ) as run:
            if check.kills_last:
                for rank in range(world):
                    run.told(rank)
                run.signal(world - 1, signal.SIGKILL)
            values = run.finish(died={world - 1} if check.kills_last else ())
    except RanksError as error:
        if seconds < _PATIENCE_S and all(isinstance(one, Stuck | Ok) for one in error.outcomes.values()):
            report.out_of_time.append(name)
        else:
            report.failed.append(f"{name}: {error}")
        return
    failures = [f"{name}: {text}" for value in values for text in value] if check.tells_failures else []
    report.failed += failures
    report.passed += not failures
