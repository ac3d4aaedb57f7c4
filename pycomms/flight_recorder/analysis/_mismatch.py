"""The first operation of each group about which its ranks disagree.

Looks at columns of a matrix of ranks by sequence numbers: those in which everyone asked for the same, nearly all, are
left behind in one comparison. Must not know: states, who waits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from pycomms.flight_recorder._model import Signature
from pycomms.flight_recorder.analysis._agreement import SYNCHRONISING, Disagreement, Terms, compare, terms
from pycomms.flight_recorder.analysis._job import GroupLanes, Lane
from pycomms.flight_recorder.analysis._result import Verdict
from pycomms.flight_recorder.analysis._splits import compare_parts, has_parts

if TYPE_CHECKING:
    import numpy.typing as npt

_NOTHING = -1
_BLOCK = 1 << 22


@dataclass(frozen=True, kw_only=True)
class Mismatch:
    """group: index. sequence: where the ranks first disagree. skipped: the minority left that operation out."""

    group: int
    sequence: int
    disagreement: Disagreement
    skipped: bool = False


class Keys:
    """Of each signature of the job: what must agree, as a number (equal numbers agree), and what sort it is of."""

    def __init__(self, signatures: list[Signature]) -> None:
        self.signatures = signatures
        self.terms = [terms(one) for one in signatures]
        index: dict[Terms, int] = {}
        self.of = np.array([index.setdefault(one, len(index)) for one in self.terms] or [0], np.int32)
        self.synchronises = np.array([one.kind in SYNCHRONISING for one in self.terms] or [False], bool)
        self.has_parts = np.array([has_parts(one) for one in signatures] or [False], bool)


def first_mismatch(index: int, group: GroupLanes, keys: Keys) -> Mismatch | None:
    lanes = [lane for _, lane in sorted(group.lanes.items()) if len(lane.sequences) and not lane.restarted]
    if len(lanes) < 2:
        return None
    start = max(lane.first + lane.shift for lane in lanes)
    columns, matrix = _matrix(lanes, start)
    if not len(columns):
        return None
    search = _Search(lanes, group, keys)
    width = max(1, _BLOCK // len(lanes))
    for left in range(0, len(columns), width):
        found = search.first(matrix[:, left : left + width])
        if found is not None:
            column, disagreement = found
            return _refine(index, int(columns[left + column]), disagreement, group, keys)
    return None


def _matrix(lanes: list[Lane], start: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32]]:
    """The sequence numbers from start on, and the signature of each rank at each; _NOTHING where it has none."""
    parts = [_from(lane, start) for lane in lanes]
    end = max((int(sequences[-1]) for sequences, _ in parts if len(sequences)), default=start - 1)
    dense = (end - start + 1) * len(lanes) <= 4 * sum(len(sequences) for sequences, _ in parts) + (1 << 16)
    numbers = [sequences for sequences, _ in parts]
    columns = np.arange(start, end + 1) if dense else np.unique(np.concatenate(numbers))
    matrix = np.full((len(lanes), len(columns)), _NOTHING, np.int32)
    for row, (sequences, signatures) in enumerate(parts):
        matrix[row, sequences - start if dense else np.searchsorted(columns, sequences)] = signatures
    return columns, matrix


def _from(lane: Lane, start: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32]]:
    sequences = lane.sequences + lane.shift
    first = int(np.searchsorted(sequences, start))
    return sequences[first:], lane.signatures[first:]


class _Search:
    def __init__(self, lanes: list[Lane], group: GroupLanes, keys: Keys) -> None:
        self._ranks = [lane.rank for lane in lanes]
        self._members = group.members
        position = {rank: place for place, rank in enumerate(group.members)}
        self._positions = [position.get(rank) for rank in self._ranks]
        self._keys = keys
        self._known: dict[bytes, Disagreement | None] = {}

    def first(self, block: npt.NDArray[np.int32]) -> tuple[int, Disagreement] | None:
        """The first column in which ranks disagree, and how."""
        present = block != _NOTHING
        keyed = np.where(present, self._keys.of[block], _NOTHING)
        smallest = keyed.view(np.uint32).min(axis=0)  # _NOTHING is the largest there
        differs = smallest != keyed.max(axis=0).astype(np.uint32)
        in_parts = (self._keys.has_parts[block] & present).any(axis=0)
        for column in np.flatnonzero(differs | in_parts):
            found = self._disagreement(block[:, column])
            if found is not None:
                return int(column), found
        return None

    def _disagreement(self, column: npt.NDArray[np.int32]) -> Disagreement | None:
        token = column.tobytes()
        if token not in self._known:
            self._known[token] = self._compare(column)
        return self._known[token]

    def _compare(self, column: npt.NDArray[np.int32]) -> Disagreement | None:
        rows = [row for row in range(len(column)) if column[row] != _NOTHING]
        if len(rows) < 2:
            return None
        found = compare({self._ranks[row]: self._keys.terms[column[row]] for row in rows})
        if found is not None:
            return found
        parts: dict[int, Signature] = {}
        for row in rows:
            position = self._positions[row]
            if position is not None and self._keys.has_parts[column[row]]:
                parts[position] = self._keys.signatures[column[row]]
        return compare_parts(parts, self._members) if len(parts) > 1 else None


def _refine(index: int, sequence: int, found: Disagreement, group: GroupLanes, keys: Keys) -> Mismatch:
    """A disagreement may be two operations swapped, or one left out with the rest in step."""
    usual = group.lanes[found.sides[0].ranks[0]]
    odd_ranks = found.minority or found.sides[1].ranks
    if not odd_ranks or any(len(side.ranks) == 0 for side in found.sides[:2]):
        return Mismatch(group=index, sequence=sequence, disagreement=found)
    odd = group.lanes[odd_ranks[0]]
    theirs, own = _keys_from(usual, sequence, keys), _keys_from(odd, sequence, keys)
    if len(theirs) > 1 and len(own) > 1 and own[0] == theirs[1] and own[1] == theirs[0] and own[0] != own[1]:
        swapped = Disagreement(Verdict.ORDER_SWAP, found.sides, found.minority)
        return Mismatch(group=index, sequence=sequence, disagreement=swapped)
    gap = len(theirs) - len(own)
    skipped = bool(found.minority) and gap > 0 and len(own) > 0 and bool((own == theirs[gap:]).all())
    return Mismatch(group=index, sequence=sequence, disagreement=found, skipped=skipped)


def _keys_from(lane: Lane, sequence: int, keys: Keys) -> npt.NDArray[np.int32]:
    _, signatures = _from(lane, sequence)
    return keys.of[signatures]
