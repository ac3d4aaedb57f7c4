"""Operations in which each rank may have a size of its own: what one sends must be what the other expects."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping

from pycomms.flight_recorder._model import Signature
from pycomms.flight_recorder.analysis._agreement import Disagreement, disagreement, family, numel
from pycomms.flight_recorder.analysis._result import Side, Verdict


def has_parts(signature: Signature) -> bool:
    """Whether ranks must be compared pair by pair."""
    kind = family(signature.kind)
    several = len(signature.input_sizes) > 1 or len(signature.output_sizes) > 1
    return kind == "all_to_all" or (kind in ("all_gather", "reduce_scatter") and several)


def compare_parts(by_position: Mapping[int, Signature], ranks: tuple[int, ...]) -> Disagreement | None:
    """How the ranks' parts disagree. by_position: ranks of the group that are known; ranks: global, of the group."""
    kind = family(next(iter(by_position.values())).kind)
    if kind == "all_to_all":
        return _exchange(by_position, ranks)
    if kind == "all_gather":
        return _lists(by_position, ranks, gathers=True)
    return _lists(by_position, ranks, gathers=False)


def _exchange(by_position: Mapping[int, Signature], ranks: tuple[int, ...]) -> Disagreement | None:
    size = len(ranks)
    sent = {me: _parts(one.input_splits, one.input_sizes, size) for me, one in by_position.items()}
    expected = {me: _parts(one.output_splits, one.output_sizes, size) for me, one in by_position.items()}
    wrong: list[tuple[int, int]] = []
    for me, parts in sent.items():
        for peer, other in expected.items():
            if parts is not None and other is not None and parts[peer] != other[me]:
                wrong.append((me, peer))
    if wrong:
        return _blame(wrong, sent, expected, ranks)
    recorded = all(one.input_sizes and one.output_sizes for one in by_position.values())
    if len(by_position) == size and recorded and None in (*sent.values(), *expected.values()):
        total_in = sum(numel(one.input_sizes) for one in by_position.values())
        total_out = sum(numel(one.output_sizes) for one in by_position.values())
        if total_in != total_out:
            return _odd_one_out(by_position, ranks)
    return None


def _parts(splits: tuple[int, ...], sizes: tuple[tuple[int, ...], ...], size: int) -> tuple[int, ...] | None:
    """Elements for (or from) each rank; None if not known."""
    if len(sizes) == size and size > 1:
        return tuple(math.prod(shape) for shape in sizes)
    if len(splits) != size or len(sizes) != 1:
        return tuple(splits) if len(splits) == size else None
    rest = math.prod(sizes[0][1:])
    return tuple(rows * rest for rows in splits)


def _blame(
    wrong: list[tuple[int, int]],
    sent: Mapping[int, tuple[int, ...] | None],
    expected: Mapping[int, tuple[int, ...] | None],
    ranks: tuple[int, ...],
) -> Disagreement:
    times = Counter(position for pair in wrong for position in set(pair))
    most = max(times.values())
    guilty = [position for position, count in times.items() if count == most]
    me, peer = wrong[0]
    if len(guilty) == 1:
        me, peer = next(pair for pair in wrong if guilty[0] in pair)
    mine, its = sent[me], expected[peer]
    assert mine is not None
    assert its is not None
    sides = (
        Side(ranks=(ranks[me],), what=f"sends {mine[peer]} elements to rank {ranks[peer]}"),
        Side(ranks=(ranks[peer],), what=f"expects {its[me]} elements from rank {ranks[me]}"),
    )
    return Disagreement(Verdict.SPLIT_MISMATCH, sides, (ranks[guilty[0]],) if len(guilty) == 1 else ())


def _odd_one_out(by_position: Mapping[int, Signature], ranks: tuple[int, ...]) -> Disagreement:
    sides: dict[str, list[int]] = {}
    for position, one in sorted(by_position.items()):
        text = f"{numel(one.input_sizes)} elements in, {numel(one.output_sizes)} out"
        sides.setdefault(text, []).append(ranks[position])
    if len(sides) == 1:
        ((text, everyone),) = sides.items()
        return Disagreement(Verdict.SPLIT_MISMATCH, (Side(ranks=tuple(everyone), what=text),), ())
    found = disagreement(Verdict.SPLIT_MISMATCH, sides)
    return found if len(found.minority) == 1 else Disagreement(found.verdict, found.sides, ())


def _lists(by_position: Mapping[int, Signature], ranks: tuple[int, ...], *, gathers: bool) -> Disagreement | None:
    """all_gather: everyone's list of outputs holds what each one puts in; reduce_scatter: the other way round."""
    lists: dict[int, tuple[int, ...]] = {}
    own: dict[int, int] = {}
    for position, one in by_position.items():
        many, single = (one.output_sizes, one.input_sizes) if gathers else (one.input_sizes, one.output_sizes)
        if len(many) == len(ranks) and len(single) == 1:
            lists[position] = tuple(math.prod(shape) for shape in many)
            own[position] = math.prod(single[0])
    if not lists:
        return None
    common, _ = min(Counter(lists.values()).items(), key=lambda item: (-item[1], item[0]))
    sides: dict[str, list[int]] = {}
    for position in sorted(lists):
        fits = lists[position] == common and own[position] == common[position]
        text = "sizes that fit" if fits else f"{own[position]} elements of its own, a list of {list(lists[position])}"
        sides.setdefault(text, []).append(ranks[position])
    return disagreement(Verdict.SIZE_MISMATCH, sides) if len(sides) > 1 else None
