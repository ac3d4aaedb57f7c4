"""A job in slow motion: runs the programs of all ranks, and records what a flight recorder would have.

A collective ends when all members of its group have issued it alike, a message when both halves are there; a rank that
waits for what never ends is stuck. So a fault is written down as what a program does, not as what a dump looks like.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from pycomms.flight_recorder._model import (
    ENTRY,
    UNKNOWN_RANK,
    UNKNOWN_SITE,
    Flag,
    Group,
    Record,
    Signature,
    Site,
    State,
)

START_NS = 1_700_000_000_000_000_000
_THINK_NS = 1_000_000
_TRANSFER_NS = 50_000

Sizes = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, kw_only=True)
class Step:
    """One call of a program. line: where it stands. asynchronous: the rank does not wait for its end.

    peer: global rank of the other side. together: issued with the steps that follow it, and awaited with them.
    think_ns: what the rank does before it. hangs: it never ends, though nothing is wrong with it.
    """

    kind: str
    group: str = "0"
    line: int = 1
    count: int = 16
    dtype: str = "Float"
    reduction: str = ""
    root: int = UNKNOWN_RANK
    peer: int = UNKNOWN_RANK
    tag: int = 0
    inputs: tuple[tuple[int, ...], ...] | None = None
    outputs: tuple[tuple[int, ...], ...] | None = None
    input_splits: tuple[int, ...] = ()
    output_splits: tuple[int, ...] = ()
    asynchronous: bool = False
    together: bool = False
    coalesced_with_next: bool = False
    think_ns: int = _THINK_NS
    hangs: bool = False
    refused: str = ""

    @property
    def is_message(self) -> bool:
        return self.kind in ("send", "recv")


@dataclass
class _Entry:
    step: Step
    rank: int
    sequence: int
    issued_ns: int
    ended_ns: int = 0
    state: State = State.ISSUED


@dataclass
class _Rank:
    steps: Sequence[Step]
    next: int = 0
    clock_ns: int = START_NS
    waits_for: list[_Entry] = field(default_factory=list)
    entries: list[_Entry] = field(default_factory=list)
    collectives: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    messages: dict[str, int] = field(default_factory=lambda: defaultdict(int))


Groups = Mapping[str, tuple[str, tuple[int, ...]]]


class Simulation:
    """Runs at once. groups: name to description and global ranks; programs: one per rank."""

    def __init__(self, groups: Groups, programs: Sequence[Sequence[Step]]) -> None:
        self.groups = groups
        self._ranks = [_Rank(steps) for steps in programs]
        self._meetings: dict[tuple[str, int], dict[int, _Entry]] = defaultdict(dict)
        self._mail: dict[tuple[str, int, int, int, str], list[_Entry]] = defaultdict(list)
        moved = True
        while moved:
            moved = sum(self._advance(number) for number in range(len(self._ranks))) > 0
        self.end_ns = max(rank.clock_ns for rank in self._ranks)

    def _advance(self, number: int) -> bool:
        rank = self._ranks[number]
        moved = False
        while rank.next < len(rank.steps):
            if any(entry.state is not State.COMPLETED for entry in rank.waits_for):
                break
            if rank.waits_for:
                rank.clock_ns = max(rank.clock_ns, *(entry.ended_ns for entry in rank.waits_for))
                rank.waits_for = []
            moved = True
            together = True
            while together and rank.next < len(rank.steps):
                step = rank.steps[rank.next]
                rank.next += 1
                together = step.together
                self._issue(number, step)
        return moved

    def _issue(self, number: int, step: Step) -> None:
        rank = self._ranks[number]
        rank.clock_ns += step.think_ns
        counter = rank.messages if step.is_message else rank.collectives
        if step.refused:
            rank.entries.append(_Entry(step, number, counter[step.group] + 1, rank.clock_ns, state=State.REJECTED))
            return
        follows = rank.entries and rank.entries[-1].step.coalesced_with_next
        if not follows:
            counter[step.group] += 1
        entry = _Entry(step, number, counter[step.group], rank.clock_ns)
        rank.entries.append(entry)
        if not step.asynchronous:
            rank.waits_for.append(entry)
        if step.is_message:
            self._deliver(entry)
        elif not step.coalesced_with_next:
            self._meet(entry)

    def _meet(self, entry: _Entry) -> None:
        name = entry.step.group
        met = self._meetings[name, entry.sequence]
        met[entry.rank] = entry
        members = self.groups[name][1]
        before = self._meetings.get((name, entry.sequence - 1), {})
        if set(met) != set(members) or any(one.state is not State.COMPLETED for one in before.values()):
            return
        if any(one.step.hangs for one in met.values()) or not _fit([met[member].step for member in members]):
            return
        end = max(one.issued_ns for one in met.values()) + _TRANSFER_NS
        for one in met.values():
            one.state, one.ended_ns = State.COMPLETED, end
            for part in self._ranks[one.rank].entries:
                same = (part.step.group, part.sequence) == (name, one.sequence)
                if same and not part.step.is_message and part.state is not State.REJECTED:
                    part.state, part.ended_ns = State.COMPLETED, end
        following = self._meetings.get((name, entry.sequence + 1))
        if following:
            self._meet(next(iter(following.values())))

    def _deliver(self, entry: _Entry) -> None:
        step = entry.step
        source, destination = (entry.rank, step.peer) if step.kind == "send" else (step.peer, entry.rank)
        sides = [(step.group, source, destination, step.tag, kind) for kind in ("send", "recv")]
        self._mail[sides[0 if step.kind == "send" else 1]].append(entry)
        sends, receives = self._mail[sides[0]], self._mail[sides[1]]
        place = len(sends if step.kind == "send" else receives) - 1
        if place >= min(len(sends), len(receives)):
            return
        send, receive = sends[place], receives[place]
        if send.step.count != receive.step.count or send.step.hangs or receive.step.hangs:
            return
        end = max(send.issued_ns, receive.issued_ns) + _TRANSFER_NS
        for one in (send, receive):
            one.state, one.ended_ns = State.COMPLETED, end

    def records(self, *, until_ns: Mapping[int, int] | None = None, waited_ns: int = 90_000_000_000) -> list[Record]:
        """What each rank recorded; until_ns: of ranks whose record was written earlier, at that time."""
        cut = until_ns or {}
        return [self._record(number, cut.get(number, self.end_ns + waited_ns)) for number in range(len(self._ranks))]

    def issued_ns(self, number: int, place: int) -> int:
        """When a rank issued its place-th operation, counted from the end if negative."""
        return self._ranks[number].entries[place].issued_ns

    def _record(self, number: int, taken_ns: int) -> Record:
        names = [name for name, (_, ranks) in self.groups.items() if number in ranks]
        kept = [entry for entry in self._ranks[number].entries if entry.issued_ns <= taken_ns]
        signatures: dict[Signature, int] = {}
        sites: dict[Site, int] = {UNKNOWN_SITE: 0}
        errors = [""]
        rows = np.zeros(len(kept), ENTRY)
        first_in_flight: set[tuple[str, bool]] = set()
        for place, entry in enumerate(kept):
            step = entry.step
            signature = self._signature(step)
            site = Site(file="train.py", line=step.line, function="step")
            state = entry.state
            if state is State.COMPLETED and entry.ended_ns > taken_ns:
                state = State.ISSUED
            if state is State.ISSUED and (step.group, step.is_message) not in first_in_flight:
                first_in_flight.add((step.group, step.is_message))
                state = State.RUNNING
            if step.refused:
                errors.append(step.refused)
            row = rows[place]
            row["id"], row["group"], row["sequence"] = place, names.index(step.group), entry.sequence
            row["signature"] = signatures.setdefault(signature, len(signatures))
            row["site"] = sites.setdefault(site, len(sites))
            row["issued_ns"], row["state"], row["timeout_ms"] = entry.issued_ns, state, 600_000
            row["ended_ns"] = entry.ended_ns if state is State.COMPLETED else 0
            row["started_ns"] = entry.issued_ns if state >= State.RUNNING else 0
            row["error"] = len(errors) - 1 if step.refused else 0
            row["flags"] = Flag.P2P if step.is_message else 0
        return Record(
            source=f"rank{number}",
            writer="ring",
            version="1",
            rank=number,
            world_size=len(self._ranks),
            pid=1000 + number,
            taken_ns=taken_ns,
            alive=True,
            groups=tuple(
                Group(name=name, description=self.groups[name][0], ranks=self.groups[name][1]) for name in names
            ),
            signatures=tuple(signatures),
            sites=tuple(sites),
            errors=tuple(errors),
            entries=rows,
        )

    def _signature(self, step: Step) -> Signature:
        members = self.groups[step.group][1]
        one: Sizes = ((step.count,),)
        many: Sizes = ((step.count * len(members),),)
        usual: dict[str, tuple[Sizes, Sizes]] = {
            "send": (one, ()),
            "recv": ((), one),
            "barrier": ((), ()),
            "monitored_barrier": ((), ()),
            "all_gather_single": (one, many),
            "reduce_scatter_single": (many, one),
        }
        inputs, outputs = usual.get(step.kind, (one, one))
        inputs = step.inputs if step.inputs is not None else inputs
        outputs = step.outputs if step.outputs is not None else outputs
        return Signature(
            kind=step.kind,
            reduction=step.reduction,
            root=step.root,
            peer=members.index(step.peer) if step.peer >= 0 else UNKNOWN_RANK,
            tag=step.tag,
            input_sizes=inputs,
            output_sizes=outputs,
            input_dtypes=(step.dtype,) * len(inputs),
            output_dtypes=(step.dtype,) * len(outputs),
            input_splits=step.input_splits,
            output_splits=step.output_splits,
        )


_UNEVEN = frozenset({"all_to_all", "all_to_all_single", "all_gather", "gather", "scatter"})


def _fit(steps: Sequence[Step]) -> bool:
    """Whether a real collective would end: what spoils only the result does not stop it."""
    kinds = {step.kind for step in steps}
    counts = {step.count * {"Double": 8, "Float": 4, "Int": 4, "Half": 2}[step.dtype] for step in steps}
    return len(kinds) == 1 and (len(counts) == 1 or kinds <= _UNEVEN) and len({step.root for step in steps}) == 1


Program = Callable[[int], list[Step]]


def run(groups: Groups, program: Program) -> Simulation:
    """A job in which every rank runs program(rank)."""
    size = len(groups["0"][1])
    return Simulation(groups, [program(rank) for rank in range(size)])
