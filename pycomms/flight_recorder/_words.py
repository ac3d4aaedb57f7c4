"""How operations, sizes and durations are written, in every report alike, and how many bytes an operation moves.

Pure. Must not know: files, terminals, HTML.
"""

from __future__ import annotations

import math
from typing import Protocol

from pycomms.flight_recorder._model import ANY_SOURCE, UNKNOWN_RANK, Entries, Record, Signature, State

# Both spellings: ours and what torch's dumps hold.
_DTYPE_BYTES = {
    "float64": 8, "double": 8, "int64": 8, "long": 8, "uint64": 8, "complex64": 8, "complexfloat": 8,
    "complex128": 16, "complexdouble": 16,
    "float32": 4, "float": 4, "int32": 4, "int": 4, "uint32": 4, "complex32": 4, "complexhalf": 4,
    "float16": 2, "half": 2, "bfloat16": 2, "int16": 2, "short": 2, "uint16": 2,
    "int8": 1, "char": 1, "uint8": 1, "byte": 1, "bool": 1,
    "float8_e4m3fn": 1, "float8_e5m2": 1, "float8_e4m3fnuz": 1, "float8_e5m2fnuz": 1, "float8_e8m0fnu": 1,
}  # fmt: skip

SOURCES_OF_TRAFFIC = {"gather": "input", "scatter": "output"}
"""Kinds where one rank alone holds the whole; the others know it as their part times the size of the group."""


def bytes_of(sizes: tuple[tuple[int, ...], ...], dtypes: tuple[str, ...]) -> int:
    """Bytes of the tensors. One dtype may stand for all of them; an unknown one counts as nothing."""
    total = 0
    for position, shape in enumerate(sizes):
        dtype = dtypes[position] if position < len(dtypes) else dtypes[-1] if dtypes else ""
        total += math.prod(shape) * _DTYPE_BYTES.get(dtype.lower(), 0)
    return total


def payload(signature: Signature, group_size: int) -> int:
    """Bytes of the whole operation as nccl-tests counts them: of the larger of input and output."""
    given = bytes_of(signature.input_sizes, signature.input_dtypes)
    taken = bytes_of(signature.output_sizes, signature.output_dtypes)
    part = {"input": given, "output": taken}.get(SOURCES_OF_TRAFFIC.get(signature.kind, ""), 0)
    return max(given, taken, part * max(group_size, 1))


def size_text(count: float) -> str:
    """``4.0 MiB``."""
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if count < 1024 or unit == "TiB":
            return f"{count:.0f} {unit}" if unit == "B" or count == int(count) else f"{count:.1f} {unit}"
        count /= 1024
    raise AssertionError("the last unit takes everything")


def duration_text(ns: float) -> str:
    """``12 µs``, ``3.4 ms``, ``2 min 05 s``: two or three digits are enough for any decision."""
    if ns < 0:
        return "-" + duration_text(-ns)
    if ns < 1e3:
        return f"{ns:.0f} ns"
    for limit, unit, name in ((1e6, 1e3, "µs"), (1e9, 1e6, "ms"), (60e9, 1e9, "s")):
        if ns < limit:
            return f"{ns / unit:.3g} {name}" if ns / unit < 99.5 else f"{ns / unit:.0f} {name}"
    seconds = round(ns / 1e9)
    if seconds < 3600:
        return f"{seconds // 60} min {seconds % 60:02d} s"
    return f"{seconds // 3600} h {seconds % 3600 // 60:02d} min"


def ranks_text(ranks: tuple[int, ...] | list[int], most: int = 8) -> str:
    """``0-3, 6``; after `most` runs the rest is counted."""
    runs: list[list[int]] = []
    for rank in sorted(set(ranks)):
        if runs and rank == runs[-1][1] + 1:
            runs[-1][1] = rank
        else:
            runs.append([rank, rank])
    shown = [str(first) if first == last else f"{first}-{last}" for first, last in runs[:most]]
    if len(runs) > most:
        shown.append(f"and {sum(last - first + 1 for first, last in runs[most:])} more")
    return ", ".join(shown)


def printable(text: str) -> str:
    """Names and errors come from files of others: nothing in them may steer the terminal that shows them."""
    return "".join(letter if letter.isprintable() else letter.encode("unicode_escape").decode() for letter in text)


class Named(Protocol):
    """A group, of a record or of a finding."""

    @property
    def name(self) -> str: ...
    @property
    def description(self) -> str: ...


def group_label(group: Named) -> str:
    """What people call it: torch names most groups by a number or a hash, the description says what they are for."""
    if group.description and group.description != "undefined":
        return group.description
    return f"group {group.name}" if group.name.isdigit() else group.name or "world"


def tensors_text(sizes: tuple[tuple[int, ...], ...], dtypes: tuple[str, ...], most: int = 3) -> str:
    """``float32[1024, 4]``; of many tensors the first few."""
    shown = []
    for position, shape in enumerate(sizes[:most]):
        dtype = dtypes[position] if position < len(dtypes) else dtypes[-1] if dtypes else ""
        shown.append(f"{dtype}[{', '.join(map(str, shape))}]")
    if len(sizes) > most:
        shown.append(f"and {len(sizes) - most} more")
    return ", ".join(shown)


def signature_text(signature: Signature) -> str:
    """``all_reduce sum float32[1024]``: everything that tells one operation from another."""
    parts = [signature.kind]
    if signature.reduction:
        parts.append(signature.reduction)
    if signature.root != UNKNOWN_RANK:
        parts.append(f"root {signature.root}")
    if signature.peer == ANY_SOURCE:
        parts.append("from any rank")
    elif signature.peer != UNKNOWN_RANK:
        parts.append(f"{'to' if signature.kind == 'send' else 'from'} {signature.peer}")
    if signature.tag:
        parts.append(f"tag {signature.tag}")
    given = tensors_text(signature.input_sizes, signature.input_dtypes)
    taken = tensors_text(signature.output_sizes, signature.output_dtypes)
    parts.append(given if given == taken or not taken else taken if not given else f"{given} → {taken}")
    return " ".join(filter(None, parts))


def op_text(record: Record, entry: Entries) -> str:
    """``all_reduce dp[17]`` of one row of ``record.entries``."""
    kind = record.signatures[entry["signature"]].kind
    label = group_label(record.groups[entry["group"]])
    return f"{kind} {label}[{entry['sequence'] or '?'}]"


def state_text(state: State) -> str:
    return state.name.lower().replace("_", " ")
