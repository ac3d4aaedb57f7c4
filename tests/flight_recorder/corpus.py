"""The labelled corpus: jobs, and what is wrong with each. Healthy ones are in corpus_healthy, faulty ones below it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from pycomms.flight_recorder._model import Record
from pycomms.flight_recorder.analysis import Verdict
from tests.flight_recorder.simulator import Groups, Step


@dataclass(frozen=True, kw_only=True)
class Case:
    """make: the records of all ranks. The rest is what the analyzer must find.

    group, sequence, line: of the first finding; None where there is nothing to check. formats: beside the records
    themselves. droppable: the root cause must not change when the record of a victim is lost.
    """

    name: str
    make: Callable[[], list[Record]]
    verdict: Verdict = Verdict.HEALTHY
    roots: tuple[int, ...] = ()
    group: str | None = None
    sequence: int | None = None
    line: int | None = None
    formats: tuple[str, ...] = ("pickle", "json")
    droppable: bool = True
    degraded: bool = False
    tags: tuple[str, ...] = field(default=())


CASES: list[Case] = []


def case(
    verdict: Verdict = Verdict.HEALTHY,
    roots: tuple[int, ...] = (),
    group: str | None = None,
    sequence: int | None = None,
    **more: Any,
) -> Callable[[Callable[[], list[Record]]], Callable[[], list[Record]]]:
    """Adds the decorated generator to the corpus, under its name. more: further fields of Case."""

    def add(make: Callable[[], list[Record]]) -> Callable[[], list[Record]]:
        made = Case(
            name=make.__name__.strip("_"),
            make=make,
            verdict=verdict,
            roots=roots,
            group=group,
            sequence=sequence,
            **more,
        )
        CASES.append(made)
        return make

    return add


def world(size: int, **groups: tuple[int, ...]) -> Groups:
    """The world, named 0, and groups that are named by their position and described by their name here."""
    made: dict[str, tuple[str, tuple[int, ...]]] = {"0": ("default_pg", tuple(range(size)))}
    for place, (description, ranks) in enumerate(groups.items(), start=1):
        made[str(place)] = (description, ranks)
    return made


def loop(count: int, *body: Step) -> list[Step]:
    """The body of a training loop, count times."""
    return [step for _ in range(count) for step in body]


AR = Step(kind="all_reduce", reduction="sum", line=10)
AG = Step(kind="all_gather_single", count=8, line=20)
RS = Step(kind="reduce_scatter_single", count=8, line=30)
BC = Step(kind="broadcast", root=0, line=40)


def keep_last(record: Record, count: int) -> Record:
    """As a ring of that many slots would hold it."""
    lost = max(0, len(record.entries) - count)
    return replace(record, entries=record.entries[lost:], dropped=lost)


def set_last(records: Sequence[Record], rank: int, **fields: int) -> list[Record]:
    """Changes fields of the last entry of one rank."""
    changed = list(records)
    entries = changed[rank].entries.copy()
    for name, value in fields.items():
        entries[name][-1] = value
    changed[rank] = replace(changed[rank], entries=entries)
    return changed


def without(records: Sequence[Record], *ranks: int) -> list[Record]:
    return [record for record in records if record.rank not in ranks]


def untimed(records: Sequence[Record]) -> list[Record]:
    """As a dump that does not say when it was taken."""
    return [replace(record, taken_ns=0) for record in records]


def cut_rows(record: Record, fraction: float) -> Record:
    """What a reader recovers of a file that was cut off."""
    kept = int(np.ceil(len(record.entries) * fraction))
    return replace(record, entries=record.entries[:kept], complete=False)
