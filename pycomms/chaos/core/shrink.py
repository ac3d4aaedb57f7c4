"""A smaller plan with which a job fails in the same way: delta debugging of its faults. Pure: trials are given."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from pycomms.chaos.core.plan import Fault, Plan

Fails = Callable[[Plan], bool]
"""Whether the job fails with a plan as it did with the first."""


def shrink(plan: Plan, fails: Fails) -> Plan:
    """The plan without all faults, ranks and repetitions that it fails without as well. It has to fail itself.

    Of what is left nothing can be taken away: not one fault, nor one rank of one. The trials are as few as delta
    debugging needs, and none is made twice.
    """
    remembered: dict[str, bool] = {}

    def still(smaller: Plan) -> bool:
        key = repr(smaller.faults)
        if key not in remembered:
            remembered[key] = fails(smaller)
        return remembered[key]

    atoms = [one for fault in plan.faults for one in _atoms(fault)]
    kept = ddmin(atoms, lambda some: still(replace(plan, faults=_together(some))))
    plan = replace(plan, faults=_together(kept))
    return _with_fewer_times(plan, still)


def ddmin(items: Sequence[Fault], fails: Callable[[Sequence[Fault]], bool]) -> list[Fault]:
    """A part of the items that fails, and of which no item can be left out.

    Zeller and Hildebrandt, Simplifying and Isolating Failure-Inducing Input, 2002.
    """
    kept, parts = list(items), 2
    while len(kept) > 1:
        pieces = list(_pieces(kept, parts))
        one = next((piece for piece in pieces if len(piece) < len(kept) and fails(piece)), None)
        if one is not None:
            kept, parts = one, 2
            continue
        rests = [_without(pieces, number) for number in range(len(pieces))]
        rest = next((some for some in rests if some and len(pieces) > 2 and fails(some)), None)
        if rest is not None:
            kept, parts = rest, max(parts - 1, 2)
        elif parts < len(kept):
            parts = min(2 * parts, len(kept))
        else:
            break
    return kept


def _pieces(items: list[Fault], parts: int) -> Iterator[list[Fault]]:
    for number in range(parts):
        piece = items[len(items) * number // parts : len(items) * (number + 1) // parts]
        if piece:
            yield piece


def _without(pieces: list[list[Fault]], left_out: int) -> list[Fault]:
    return [item for number, piece in enumerate(pieces) if number != left_out for item in piece]


def _atoms(fault: Fault) -> Iterator[Fault]:
    """The fault, for each of its ranks."""
    if len(fault.ranks) <= 1:
        yield fault
    for rank in fault.ranks if len(fault.ranks) > 1 else ():
        yield replace(fault, ranks=(rank,))


def _together(atoms: Sequence[Fault]) -> tuple[Fault, ...]:
    """Those that differ in their rank alone are one fault of several ranks again."""
    faults: list[Fault] = []
    for atom in atoms:
        same = next((i for i, one in enumerate(faults) if atom.ranks and replace(one, ranks=atom.ranks) == atom), None)
        if same is None or set(atom.ranks) & set(faults[same].ranks):
            faults.append(atom)
        else:
            faults[same] = replace(faults[same], ranks=tuple(sorted({*faults[same].ranks, *atom.ranks})))
    return tuple(faults)


def _with_fewer_times(plan: Plan, still: Fails) -> Plan:
    for number, fault in enumerate(plan.faults):
        for times in range(1, fault.times):
            fewer = replace(fault, times=times)
            smaller = replace(plan, faults=(*plan.faults[:number], fewer, *plan.faults[number + 1 :]))
            if still(smaller):
                plan = smaller
                break
    return plan
