"""The records of a job in the order the analysis needs: by group, then by rank, then by sequence number.

One record is chosen for each rank; groups of different records are the same when name, generation and members say so.
Must not know: what is wrong.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from pycomms.flight_recorder._model import UNKNOWN_RANK, Entries, Flag, Group, Record, Signature, Site, State
from pycomms.flight_recorder.analysis._result import GroupRef
from pycomms.flight_recorder.analysis._text import ranks_text

if TYPE_CHECKING:
    import numpy.typing as npt

_Number = TypeVar("_Number", bound=np.generic)


@dataclass(slots=True, kw_only=True)
class Lane:
    """What one rank did in one group: its collectives, one row per sequence number, ascending.

    rows: indices into the record's entries. shift: added to the numbers as written, where recording began late.
    restarted: the numbers began again, so that they cannot be compared with those of others.
    """

    rank: int
    record: Record
    rows: npt.NDArray[np.int32]
    sequences: npt.NDArray[np.int64]
    signatures: npt.NDArray[np.int32]
    shift: int = 0
    restarted: bool = False
    last_issued: int = 0

    @property
    def entries(self) -> Entries:
        chosen: Entries = self.record.entries[self.rows]
        return chosen

    def states(self) -> npt.NDArray[np.uint8]:
        states: npt.NDArray[np.uint8] = self.record.entries["state"][self.rows]
        return states

    @property
    def first(self) -> int:
        return int(self.sequences[0]) if len(self.sequences) else 0

    @property
    def last(self) -> int:
        """The last sequence number that this rank issued; 0 if none."""
        return max(int(self.sequences[-1]) if len(self.sequences) else 0, self.last_issued)

    def at(self, sequence: int) -> int | None:
        """Where in rows a sequence number is."""
        where = int(np.searchsorted(self.sequences, sequence))
        found = where < len(self.sequences) and self.sequences[where] == sequence
        return where if found else None

    def site(self, where: int) -> Site:
        return self.record.sites[int(self.record.entries["site"][self.rows[where]])]


@dataclass(slots=True, kw_only=True)
class GroupLanes:
    """One group of the job. inferred: its members are those who used it: no record lists them."""

    ref: GroupRef
    lanes: dict[int, Lane] = field(default_factory=dict)
    inferred: bool = False

    @property
    def members(self) -> tuple[int, ...]:
        return self.ref.ranks


@dataclass(slots=True, kw_only=True)
class Job:
    """records: the one chosen for each rank. superseded: older ones of the same ranks."""

    records: dict[int, Record]
    superseded: dict[int, list[Record]]
    groups: list[GroupLanes]
    group_of: dict[tuple[int, int], int]
    """(rank, index in its record) to index in groups."""
    signatures: list[Signature]
    warnings: list[str]
    absent: tuple[int, ...] = ()

    @property
    def entries(self) -> int:
        return sum(len(record.entries) for record in self.records.values())

    def is_blank(self, rank: int) -> bool:
        """Nothing can be concluded from what this rank's record does not hold."""
        record = self.records.get(rank)
        return record is None or not record.complete or not len(record.entries)


def build(records: Sequence[Record]) -> Job:
    """Sorts the records of a job; their order does not matter."""
    warnings: list[str] = []
    chosen, superseded = _one_per_rank(records, warnings)
    groups, group_of = _identify(chosen, warnings)
    job = Job(records=chosen, superseded=superseded, groups=groups, group_of=group_of, signatures=[], warnings=warnings)
    interning, alike = _Signatures(job.signatures), _Alike()
    for rank, record in chosen.items():
        _add_lanes(job, rank, record, interning, alike)
    everyone = {rank for group in groups if group.lanes for rank in group.members}
    everyone.update(range(max((record.world_size for record in chosen.values()), default=0)))
    job.absent = tuple(sorted(everyone - chosen.keys()))
    _infer_members(job)
    return job


def seen_at(record: Record) -> int:
    """When somebody looked at the process and found it like this; 0 if that is not known.

    The ring of a process that is gone, or on another host, ends when it last wrote, which may be long before.
    """
    return 0 if record.writer == "ring" and not record.alive else record.taken_ns


def newest(record: Record) -> int:
    """When the record's last event was, on the wall clock; 0 if it has no times."""
    entries = record.entries
    if not len(entries):
        return 0
    return int(max(entries[name].max() for name in ("issued_ns", "started_ns", "ended_ns")))


def _one_per_rank(records: Sequence[Record], warnings: list[str]) -> tuple[dict[int, Record], dict[int, list[Record]]]:
    by_rank: dict[int, list[Record]] = defaultdict(list)
    for record in records:
        by_rank[record.rank].append(record)
    nameless = by_rank.pop(UNKNOWN_RANK, [])
    world = max((record.world_size for record in records), default=0)
    vacant = sorted(set(range(world)) - by_rank.keys())
    if len(nameless) == 1 and len(vacant) == 1:
        warnings.append(
            f"{nameless[0].source} does not say of which rank it is: taken for {vacant[0]}, the only one left"
        )
        by_rank[vacant[0]] = [replace(nameless[0], rank=vacant[0])]
    else:
        warnings.extend(f"{one.source} does not say of which rank it is, and neither does its name" for one in nameless)
    chosen: dict[int, Record] = {}
    superseded: dict[int, list[Record]] = {}
    for rank in sorted(by_rank):
        ordered = sorted(
            by_rank[rank],
            key=lambda one: (one.attempt, one.started_ns, newest(one), one.taken_ns, len(one.entries), one.source),
        )
        chosen[rank] = ordered[-1]
        if len(ordered) > 1:
            superseded[rank] = ordered[:-1]
    _leave_out_older_attempts(chosen, superseded, warnings)
    several = [
        rank
        for rank, older in superseded.items()
        if rank in chosen and any(one.pid != chosen[rank].pid for one in older)
    ]
    if several:  # else they are dumps that the same process wrote before
        warnings.append(f"records of several processes for {ranks_text(several)}: the newest of each is used")
    for what, values in (
        ("versions of the dump format", {one.version for one in chosen.values() if one.writer not in ("ring",)}),
        ("jobs", {one.job for one in chosen.values() if one.job}),
    ):
        if len(values - {""}) > 1:
            warnings.append(f"mixed {what}: {', '.join(sorted(values - {''}))}")
    return chosen, superseded


def _leave_out_older_attempts(
    chosen: dict[int, Record], superseded: dict[int, list[Record]], warnings: list[str]
) -> None:
    """Of ranks that did not come to the newest attempt of the job, what they did in an earlier one is another story.

    Unless they are still there: a launcher that starts only one rank anew leaves the others in their attempt.
    """
    newest_attempt = max((record.attempt for record in chosen.values()), default=0)
    current = [rank for rank, record in chosen.items() if record.attempt == newest_attempt]
    began = min((chosen[rank].started_ns for rank in current), default=0)
    over = [
        rank
        for rank, record in chosen.items()
        if record.attempt < newest_attempt and not record.alive and 0 < record.taken_ns < began
    ]
    if len(over) < len(current):
        for rank in over:
            superseded.setdefault(rank, []).append(chosen.pop(rank))
    older = {one.attempt for ones in superseded.values() for one in ones if one.attempt < newest_attempt}
    if older:
        warnings.append(
            f"the verdict is about attempt {newest_attempt} of the job, the newest: "
            f"records of {'attempt' if len(older) == 1 else 'attempts'} {', '.join(map(str, sorted(older)))} "
            "are left out"
        )


def _identify(chosen: dict[int, Record], warnings: list[str]) -> tuple[list[GroupLanes], dict[tuple[int, int], int]]:
    """Groups with the same name and generation are one, unless their members are different people altogether."""
    world = max((record.world_size for record in chosen.values()), default=0)
    uses: dict[tuple[str, int], list[tuple[int, int, Group]]] = defaultdict(list)
    for rank, record in chosen.items():
        for index, group in enumerate(record.groups):
            uses[group.name, group.generation].append((rank, index, group))
    groups: list[GroupLanes] = []
    group_of: dict[tuple[int, int], int] = {}
    for name, generation in sorted(uses):
        same_name = uses[name, generation]
        # Records of a large job share their lists: comparing 10,000 lists of 10,000 ranks would take seconds.
        times = Counter(id(group.ranks) for _, _, group in same_name)
        lists = {id(group.ranks): group.ranks for _, _, group in same_name if group.ranks}
        members: Counter[tuple[int, ...]] = Counter()
        for token, listed in lists.items():
            members[listed] += times[token]
        clusters = _clusters(members, name, warnings)
        made: dict[tuple[int, ...], int] = {}
        place_of: dict[int, int] = {}
        for rank, index, group in same_name:
            if id(group.ranks) in place_of:
                group_of[rank, index] = place_of[id(group.ranks)]
                continue
            ranks = clusters.get(group.ranks, ())
            if not ranks:  # not recorded: the group of that name which this rank is in, if others list it
                ranks = next((one for one in sorted(set(clusters.values())) if rank in one), ())
            if not ranks and group.description == "default_pg" and world:
                ranks = tuple(range(world))
            if ranks not in made:
                made[ranks] = len(groups)
                groups.append(GroupLanes(ref=GroupRef(name=name, ranks=ranks), inferred=not ranks))
            group_of[rank, index] = made[ranks]
            if group.ranks:
                place_of[id(group.ranks)] = made[ranks]
        for place in made.values():
            described = Counter(group.description for rank, index, group in same_name if group_of[rank, index] == place)
            best = min(described, key=lambda text: (text in ("", "undefined"), -described[text], text))
            groups[place].ref = replace(groups[place].ref, description=best)
    return groups, group_of


def _clusters(
    members: Counter[tuple[int, ...]], name: str, warnings: list[str]
) -> dict[tuple[int, ...], tuple[int, ...]]:
    """Member lists that overlap are one group, about which the ranks disagree: the most frequent list stands."""
    clusters: dict[tuple[int, ...], tuple[int, ...]] = {}
    owner: dict[int, tuple[int, ...]] = {}
    for ranks in sorted(members, key=lambda one: (-members[one], one)):
        same = next((owner[rank] for rank in ranks if rank in owner), None)
        if same is None:
            owner.update((rank, ranks) for rank in ranks)
        else:
            warnings.append(f"the ranks disagree about the members of group {name!r}: {list(same)} or {list(ranks)}")
        clusters[ranks] = same or ranks
    return clusters


def _infer_members(job: Job) -> None:
    for group in job.groups:
        if group.inferred:
            group.ref = replace(group.ref, ranks=tuple(sorted(group.lanes)))


class _Alike:
    """Arrays that many ranks have alike, kept once: most ranks of a large job do the same."""

    def __init__(self) -> None:
        self._kept: dict[tuple[int, int], npt.NDArray[Any]] = {}

    def keep(self, array: npt.NDArray[_Number]) -> npt.NDArray[_Number]:
        key = (array.itemsize, hash(array.tobytes()))
        kept = self._kept.setdefault(key, array)
        return kept if np.array_equal(kept, array) else array


class _Signatures:
    """Signatures of all records in one list: an index stands for the same signature wherever it was recorded."""

    def __init__(self, into: list[Signature]) -> None:
        self._list = into
        self._index: dict[Signature, int] = {}
        self._by_table: dict[int, npt.NDArray[np.int32]] = {}
        self._bundles: dict[tuple[int, ...], int] = {}

    def add(self, signature: Signature) -> int:
        index = self._index.setdefault(signature, len(self._list))
        if index == len(self._list):
            self._list.append(signature)
        return index

    def of_record(self, record: Record) -> npt.NDArray[np.int32]:
        table = self._by_table.get(id(record.signatures))
        if table is None:
            table = np.array([self.add(one) for one in record.signatures], np.int32)
            self._by_table[id(record.signatures)] = table
        return table

    def bundle(self, parts: tuple[int, ...]) -> int:
        """Operations that were issued together and share a number, as one operation on all their tensors."""
        found = self._bundles.get(parts)
        if found is None:
            inner = [self._list[part] for part in parts]
            inner = [one for one in inner if not one.kind.endswith("coalesced")] or inner
            kinds = sorted({one.kind for one in inner})
            found = self._bundles[parts] = self.add(
                replace(
                    inner[0],
                    kind=kinds[0] if len(kinds) == 1 else f"coalesced({', '.join(kinds)})",
                    input_sizes=tuple(size for one in inner for size in one.input_sizes),
                    output_sizes=tuple(size for one in inner for size in one.output_sizes),
                    input_dtypes=tuple(name for one in inner for name in one.input_dtypes),
                    output_dtypes=tuple(name for one in inner for name in one.output_dtypes),
                )
            )
        return found


def _add_lanes(job: Job, rank: int, record: Record, interning: _Signatures, alike: _Alike) -> None:
    table = interning.of_record(record)
    entries = record.entries
    numbered = ((entries["flags"] & Flag.P2P) == 0) & (entries["state"] != State.REJECTED) & (entries["sequence"] > 0)
    rows = np.flatnonzero(numbered).astype(np.int32)
    groups = entries["group"][rows]
    order = np.lexsort((rows, entries["sequence"][rows], groups))
    rows, groups = rows[order], groups[order]
    cuts = np.flatnonzero(np.diff(groups)) + 1
    newest_generation: dict[str, int] = {}
    for group in record.groups:
        newest_generation[group.name] = max(newest_generation.get(group.name, 0), group.generation)
    parts = {int(entries["group"][part[0]]): part for part in np.split(rows, cuts) if len(part)}
    for index, group in enumerate(record.groups):
        if group.generation < newest_generation[group.name]:
            continue  # left behind by a regroup
        part = parts.get(index, np.zeros(0, np.int32))
        if not len(part) and not group.last_issued:
            continue
        lane = _lane(rank, record, part, table, interning, alike)
        lane.last_issued = group.last_issued
        job.groups[job.group_of[rank, index]].lanes[rank] = lane


def _lane(
    rank: int,
    record: Record,
    rows: npt.NDArray[np.int32],
    table: npt.NDArray[np.int32],
    interning: _Signatures,
    alike: _Alike,
) -> Lane:
    sequences = record.entries["sequence"][rows].astype(np.int64)
    signatures = table[record.entries["signature"][rows]]
    if len(rows) and not (np.diff(sequences) > 0).all():
        _, first, counts = np.unique(sequences, return_index=True, return_counts=True)
        last = first + counts - 1
        merged = signatures[last].copy()
        for place in np.flatnonzero(counts > 1):
            parts = signatures[first[place] : last[place] + 1]
            merged[place] = interning.bundle(tuple(parts.tolist()))
        rows, sequences, signatures = rows[last], sequences[last], merged
    return Lane(
        rank=rank,
        record=record,
        rows=alike.keep(rows),
        sequences=alike.keep(sequences),
        signatures=alike.keep(signatures),
    )
