"""The collectives of all ranks side by side: for each group, which rank issued and ended which of them when.

Pure, and by whole columns: a job of 10,000 ranks has 20 million rows. Must not know: verdicts, texts of reports.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from pycomms.flight_recorder._model import Flag, Group, Record, State

GroupKey: TypeAlias = tuple[str, str, tuple[int, ...], int]
Integers: TypeAlias = npt.NDArray[np.int64]


def key_of(group: Group) -> GroupKey:
    """What makes two groups of different records the same. The name alone does not: torch hands names out again."""
    return (group.name, group.description, group.ranks, group.generation)


@dataclass(frozen=True, kw_only=True, slots=True)
class Meeting:
    """All rows of one group's collectives, sorted by sequence. record: index into the records that were given."""

    group: Group
    sequence: Integers
    record: Integers
    issued_ns: Integers
    ended_ns: Integers
    state: Integers
    kind: list[str]
    kind_index: Integers

    def bounds(self) -> Integers:
        """Where the rows of each sequence number begin, and the end of all."""
        starts = np.flatnonzero(np.diff(self.sequence, prepend=-1))
        return np.append(starts, len(self.sequence)).astype(np.int64)


def meetings(records: Sequence[Record]) -> Iterator[Meeting]:
    """One for each group that recorded a collective with a known sequence number."""
    members: dict[GroupKey, list[tuple[int, int]]] = {}
    for number, record in enumerate(records):
        for position, group in enumerate(record.groups):
            members.setdefault(key_of(group), []).append((number, position))
    for homes in members.values():
        kinds: dict[str, int] = {}
        columns: list[tuple[Integers, ...]] = []
        for number, position in homes:
            record = records[number]
            entries = record.entries
            rows = entries[
                (entries["group"] == position)
                & (entries["flags"] & Flag.P2P == 0)
                & (entries["sequence"] > 0)
                & (entries["state"] != State.REJECTED)
            ]
            if not len(rows):
                continue
            names = np.array(
                [kinds.setdefault(signature.kind, len(kinds)) for signature in record.signatures], np.int64
            )
            columns.append(
                (
                    rows["sequence"].astype(np.int64),
                    np.full(len(rows), number, np.int64),
                    rows["issued_ns"],
                    rows["ended_ns"],
                    rows["state"].astype(np.int64),
                    names[rows["signature"]],
                )
            )
        if columns:
            sequence, record_index, issued, ended, state, kind = map(np.concatenate, zip(*columns, strict=True))
            order = np.lexsort((record_index, sequence))
            first_record, first_position = homes[0]
            yield Meeting(
                group=records[first_record].groups[first_position],
                sequence=sequence[order],
                record=record_index[order],
                issued_ns=issued[order],
                ended_ns=ended[order],
                state=state[order],
                kind=[*kinds],
                kind_index=kind[order],
            )
