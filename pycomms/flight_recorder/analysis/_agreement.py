"""What the ranks of a group must agree on, operation by operation, and who does not.

A field that was not recorded agrees with everything. Must not know: sequence numbers, states, who waits.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from pycomms.flight_recorder._model import UNKNOWN_RANK, Signature
from pycomms.flight_recorder.analysis._result import Side, Verdict

_FAMILIES = {
    "all_gather_single": "all_gather",
    "all_gather_coalesced": "all_gather",
    "reduce_scatter_single": "reduce_scatter",
    "reduce_scatter_coalesced": "reduce_scatter",
    "all_reduce_coalesced": "all_reduce",
    "all_to_all_single": "all_to_all",
}
"""Operations that are the same on the wire: gloo records one for the other."""

SYNCHRONISING = frozenset({"all_reduce", "all_gather", "reduce_scatter", "all_to_all", "barrier", "monitored_barrier"})
"""Operations that nobody can leave before everybody has come."""

_BY_INPUT = frozenset({"all_reduce", "reduce", "broadcast", "gather", "all_gather"})
_BY_OUTPUT = frozenset({"scatter", "reduce_scatter"})

_DTYPES = {
    "float32": "Float",
    "float64": "Double",
    "float16": "Half",
    "bfloat16": "BFloat16",
    "int64": "Long",
    "int32": "Int",
    "int16": "Short",
    "int8": "Char",
    "uint8": "Byte",
    "bool": "Bool",
}


def family(kind: str) -> str:
    return _FAMILIES.get(kind, kind)


def numel(sizes: tuple[tuple[int, ...], ...]) -> int:
    """Of all the tensors together."""
    return sum(math.prod(shape) for shape in sizes)


@dataclass(frozen=True, slots=True)
class Terms:
    """The part of a signature that must be the same on every rank. None: not recorded, or free."""

    kind: str
    root: int | None
    reduction: str | None
    dtype: str | None
    size: int | None


def terms(signature: Signature) -> Terms:
    kind = family(signature.kind)
    types = (signature.input_dtypes if kind not in _BY_OUTPUT else ()) or signature.output_dtypes
    if kind in ("barrier", "monitored_barrier"):
        types = ()
    size = None
    if kind in _BY_INPUT and signature.input_sizes:
        size = numel(signature.input_sizes)
    elif kind in _BY_OUTPUT and signature.output_sizes:
        size = numel(signature.output_sizes)
    if kind in ("all_gather", "reduce_scatter") and _has_a_tensor_each(signature):
        size = None  # may be uneven: checked rank against rank in _splits
    return Terms(
        kind=kind,
        root=None if signature.root == UNKNOWN_RANK else signature.root,
        reduction=signature.reduction or None,
        dtype=", ".join(sorted({_DTYPES.get(name.removeprefix("torch."), name) for name in types})) or None,
        size=size,
    )


def _has_a_tensor_each(signature: Signature) -> bool:
    return max(len(signature.input_sizes), len(signature.output_sizes)) > 1


@dataclass(frozen=True, slots=True)
class Disagreement:
    """sides: largest first. minority: the ranks that differ from the plurality; empty when no side is the largest."""

    verdict: Verdict
    sides: tuple[Side, ...]
    minority: tuple[int, ...]


_FIELDS = (
    ("kind", Verdict.OP_MISMATCH),
    ("root", Verdict.ROOT_MISMATCH),
    ("reduction", Verdict.REDOP_MISMATCH),
    ("dtype", Verdict.DTYPE_MISMATCH),
    ("size", Verdict.SIZE_MISMATCH),
)


def compare(by_rank: Mapping[int, Terms]) -> Disagreement | None:
    """How the ranks disagree about one operation, in the first field that differs; None if they agree."""
    for name, verdict in _FIELDS:
        sides: dict[object, list[int]] = defaultdict(list)
        for rank in sorted(by_rank):
            value = getattr(by_rank[rank], name)
            if value is not None:
                sides[value].append(rank)
        if len(sides) > 1:
            return disagreement(verdict, {_say(name, value): ranks for value, ranks in sides.items()})
    return None


def disagreement(verdict: Verdict, sides: Mapping[str, list[int]]) -> Disagreement:
    ordered = sorted(sides.items(), key=lambda side: (-len(side[1]), side[1]))
    tied = len(ordered[0][1]) == len(ordered[1][1])
    minority = () if tied else tuple(sorted(rank for _, ranks in ordered[1:] for rank in ranks))
    return Disagreement(verdict, tuple(Side(ranks=tuple(ranks), what=what) for what, ranks in ordered), minority)


def _say(name: str, value: object) -> str:
    texts = {"kind": "{}", "root": "root {}", "reduction": "reduction {}", "dtype": "{}", "size": "{} elements"}
    return texts[name].format(value)
