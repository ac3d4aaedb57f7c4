"""What the workers of a job have written, and what it says about one kill. Pure, but for reading the file.

Moments are of CLOCK_MONOTONIC, in seconds.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Line:
    at: float
    slot: int
    pid: int
    what: str
    values: Sequence[int] = ()

    @property
    def committed(self) -> bool:
        return self.what == "step" and self.values[1] == 1

    @property
    def number(self) -> int:
        return self.values[0]

    @property
    def world(self) -> int:
        return self.values[2]


class Log:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._read = 0
        self.lines: list[Line] = []

    def update(self) -> None:
        with self._path.open("rb") as file:
            file.seek(self._read)
            data = file.read()
        whole = data[: data.rfind(b"\n") + 1]
        self._read += len(whole)
        self.lines += map(parse, whole.decode().splitlines())

    def forget(self, kill: Kill) -> None:
        """What was before a kill that is over: a long run writes much, and is looked at often."""
        self.lines = [line for line in self.lines if line.at >= kill.at]

    def pids(self) -> dict[int, int]:
        """By slot the process that has said something last."""
        return {line.slot: line.pid for line in self.lines}


def parse(text: str) -> Line:
    at, slot, pid, what, *values = text.split()
    return Line(int(at) / 1e9, int(slot), int(pid), what, tuple(map(int, values)))


@dataclass(frozen=True)
class Kill:
    at: float
    slot: int
    pids: dict[int, int]  # by slot, those that lived before it

    @property
    def others(self) -> set[int]:
        return set(self.pids) - {self.slot}


def went_on(lines: Iterable[Line], kill: Kill) -> float | None:
    """When all others had committed a step: without the dead one, or with what has taken its place. None: not yet."""
    without: dict[int, float] = {}
    for line in lines:
        if line.committed and line.at > kill.at and line.slot in kill.others and line.world == len(kill.others):
            without.setdefault(line.slot, line.at)
    moments = [max(without.values())] if set(without) == kill.others else []
    again = together(lines, kill)
    if again:
        moments.append(max(again.values()))
    return min(moments, default=None)


def together(lines: Iterable[Line], kill: Kill) -> dict[int, float]:
    """By slot, when it had first committed a step of all of them with the newcomer in it. Empty: not all have yet."""
    since = {line.slot: line for line in reversed(list(lines)) if _is_of_newcomer(line, kill) and line.committed}
    if kill.slot not in since:
        return {}
    first = since[kill.slot]
    found: dict[int, float] = {}
    for line in lines:
        is_full = line.committed and line.world == len(kill.pids) and line.number >= first.number
        if is_full and line.at > kill.at and (line.slot != kill.slot or line.pid == first.pid):
            found.setdefault(line.slot, line.at)
    return found if set(found) == set(kill.pids) else {}


def _is_of_newcomer(line: Line, kill: Kill) -> bool:
    return line.slot == kill.slot and line.pid != kill.pids[kill.slot] and line.at > kill.at


def gap(lines: Sequence[Line], kill: Kill, begin: float, end: float) -> float:
    """The longest time between two commits of one of the others that overlaps [begin, end]."""
    longest = 0.0
    for slot in kill.others:
        times = [line.at for line in lines if line.slot == slot and line.committed]
        for before, after in itertools.pairwise(times):
            if after >= begin and before <= end:
                longest = max(longest, after - before)
    return longest


@dataclass(frozen=True, kw_only=True)
class Trial:
    """Of one kill; times in s.

    Attributes:
        to_next_step: from the kill until all survivors have committed a step again.
        to_full_strength: from the kill until all have committed a step together with the newcomer.
        to_rejoin: the same, from the moment at which the newcomer had all but a group: imports, model, optimizer.
        gap: the longest time between two commits of a survivor around that.
        lost: steps whose work was done again: committed ones that were rolled back, and the one in progress.
        restored: survivors that took the state from elsewhere. died: survivors that ended as well.
        failure: why there is nothing of the above.
    """

    contestant: str
    to_next_step: float = 0.0
    to_full_strength: float = 0.0
    to_rejoin: float = 0.0
    gap: float = 0.0
    lost: int = 0
    restored: int = 0
    died: int = 0
    failure: str = ""


def judge(contestant: str, lines: Sequence[Line], kill: Kill) -> Trial | None:
    """None: it is not over."""
    moment = went_on(lines, kill)
    again = together(lines, kill)
    if moment is None or not again:
        return None
    end = max(again.values())
    joining = max(
        (line.at for line in lines if line.what == "joining" and _is_of_newcomer(line, kill) and line.at < end),
        default=kill.at,
    )
    after = [line for line in lines if kill.at < line.at <= end]
    old = (line.number for line in lines if line.committed and line.at < joining and line.pid in kill.pids.values())
    first = min(line.number for line in after if line.committed and _is_of_newcomer(line, kill))
    discarded = [
        sum(line.what == "step" and not line.committed for line in after if line.slot == slot) for slot in kill.others
    ]
    survivors = {pid for slot, pid in kill.pids.items() if slot != kill.slot}
    return Trial(
        contestant=contestant,
        to_next_step=moment - kill.at,
        to_full_strength=end - kill.at,
        to_rejoin=end - joining,
        gap=gap(lines, kill, min(again.values()), end),
        lost=max(0, max(old, default=0) + 1 - first) + max(discarded, default=0),
        restored=len({line.slot for line in after if line.what == "restored" and line.slot in kill.others}),
        died=len(survivors - {line.pid for line in lines if line.at >= min(again.values())}),
    )
