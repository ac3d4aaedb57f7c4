"""A record in torch's format 2.10, so that torch's own tools read it: names, shapes and types as they expect them.

torch's analyzer asserts on every name that it does not know, and compares shapes as nccl's backend writes them, so both
are put the way that backend would have. What the format has no place for goes into keys that torch ignores and our own
reader knows. The format: include/torch/csrc/distributed/c10d/FlightRecorder.hpp; what torch accepts:
torch/distributed/flight_recorder/components/types.py. Only plain containers come out. Must not know: files.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from pycomms.flight_recorder._model import UNKNOWN_RANK, Entries, Flag, Group, Record, Signature, State
from pycomms.flight_recorder._words import signature_text, state_text

VERSION = "2.10"

# The older of the names that mean the same: they are known to every torch since 2.5.
_NAMES = {
    "all_gather_single": "_all_gather_base",
    "all_gather_coalesced": "all_gather_into_tensor_coalesced",
    "all_gather_single_coalesced": "all_gather_into_tensor_coalesced",
    "all_reduce_coalesced": "allreduce_coalesced",
    "all_to_all_single": "all_to_all",
    "barrier": "all_reduce_barrier",
    "monitored_barrier": "all_reduce_barrier",
    "reduce_scatter_single": "_reduce_scatter_base",
    "reduce_scatter_coalesced": "reduce_scatter_tensor_coalesced",
    "reduce_scatter_single_coalesced": "reduce_scatter_tensor_coalesced",
}
_KNOWN = frozenset(
    [*_NAMES, "all_reduce", "all_gather", "all_to_all", "broadcast", "gather", "reduce", "reduce_scatter", "scatter"]
)
_P2P = frozenset({"send", "recv"})

# nccl's backend lays lists of tensors end to end before it records them.
_FLAT_OUTPUT = frozenset({"all_gather", "all_to_all"})
_FLAT_INPUT = frozenset({"reduce_scatter", "all_to_all"})
# One tensor is both, on every rank.
_SAME_TENSOR = frozenset({"all_reduce", "broadcast", "reduce"})

_DTYPES = {
    "float64": "Double", "float32": "Float", "float16": "Half", "bfloat16": "BFloat16", "int64": "Long",
    "int32": "Int", "int16": "Short", "int8": "Char", "uint8": "Byte", "bool": "Bool", "complex32": "ComplexHalf",
    "complex64": "ComplexFloat", "complex128": "ComplexDouble", "float8_e4m3fn": "Float8_e4m3fn",
    "float8_e5m2": "Float8_e5m2", "uint16": "UInt16", "uint32": "UInt32", "uint64": "UInt64",
}  # fmt: skip


def to_torch(record: Record) -> dict[str, Any]:
    """The dump that torch's recorder would have written, and what we know besides."""
    entries, left_out = _entries(record)
    return {
        "version": VERSION,
        "comm_lib_version": record.library,
        "pg_config": {
            _name(group): {"name": _name(group), "desc": _description(group), "ranks": str([*_members(record, group)])}
            for group in record.groups
        },
        "pg_status": {
            str(index): {
                "last_enqueued_collective": group.last_issued,
                "last_started_collective": group.last_started,
                "last_completed_collective": group.last_completed,
            }
            for index, group in enumerate(record.groups)
        },
        "entries": entries,
        # From here on: not in torch's format.
        "writer": "pycomms" if record.writer == "ring" else record.writer,  # a copy: it does not go on
        "rank": record.rank,
        "world_size": record.world_size,
        "host": record.host,
        "pid": record.pid,
        "job": record.job,
        "attempt": record.attempt,
        "started_ns": record.started_ns,
        "taken_ns": record.taken_ns if record.alive or record.writer != "ring" else 0,
        "stop_reason": record.stop_reason,
        "left_out": left_out,
    }


def _name(group: Group) -> str:
    """torch knows no generations: each becomes a group of its own, because its sequence numbers begin anew."""
    return f"{group.name}.g{group.generation}" if group.generation else group.name


def _description(group: Group) -> str:
    return group.description or "undefined"


def _members(record: Record, group: Group) -> Sequence[int]:
    """torch's analyzer cannot do without: an unknown membership becomes one that accuses nobody."""
    if group.ranks:
        return group.ranks
    return range(record.world_size) if group.description == "default_pg" else [max(record.rank, 0)]


def _entries(record: Record) -> tuple[list[dict[str, Any]], list[str]]:
    """The entries, each batch with the closing entry that torch looks for; and in words what cannot be one."""
    rows = record.entries
    found: list[dict[str, Any]] = []
    left_out: list[str] = []
    counters: dict[int, dict[str, int]] = {}
    frames: dict[int, list[dict[str, Any]]] = {}
    for position in range(len(rows)):
        row = rows[position]
        group = int(row["group"])
        signature = record.signatures[row["signature"]]
        name = _profiling_name(record, record.groups[group], signature)
        state = State(int(row["state"]))
        if name is None or state == State.REJECTED:
            error = record.errors[row["error"]]
            left_out.append(": ".join(filter(None, (state_text(state), signature_text(signature), error))))
            continue
        counter = counters.setdefault(group, {"collective": 0, "p2p": 0})
        counter["p2p" if row["flags"] & Flag.P2P else "collective"] = int(row["sequence"])
        site = int(row["site"])
        if site not in frames:
            frames[site] = _frames(record, site)
        entry = _entry(record, row, name, signature, counter, frames[site])
        found.append(entry)
        if row["flags"] & Flag.COALESCED and not _goes_on(rows, position):
            found.append({**entry, "profiling_name": "nccl:coalesced", "input_sizes": [], "output_sizes": [],
                          "input_dtypes": [], "output_dtypes": []})  # fmt: skip
    return found, left_out


def _goes_on(rows: Entries, position: int) -> bool:
    """Whether the next entry belongs to the same batch."""
    if position + 1 == len(rows):
        return False
    here, after = rows[position], rows[position + 1]
    return all(here[name] == after[name] for name in ("group", "sequence", "flags"))


def _entry(
    record: Record,
    row: Entries,
    name: str,
    signature: Signature,
    counter: dict[str, int],
    frames: list[dict[str, Any]],
) -> dict[str, Any]:
    group = record.groups[row["group"]]
    inputs, outputs = _sizes(signature)
    state = State(int(row["state"]))
    started, ended = int(row["started_ns"]), int(row["ended_ns"])
    completed = state == State.COMPLETED
    dtypes = [*signature.input_dtypes[: len(inputs)]], [*signature.output_dtypes[: len(outputs)]]
    if signature.kind in _SAME_TENSOR:
        dtypes = (dtypes[0] or dtypes[1], dtypes[1] or dtypes[0])
    entry = {
        "frames": frames,
        "record_id": int(row["id"]),
        "pg_id": int(row["group"]),
        "process_group": (_name(group), _description(group)),
        "thread_name": "",
        "thread_id": "",
        "collective_seq_id": counter["collective"],
        "p2p_seq_id": counter["p2p"],
        "op_id": int(row["id"]),
        "profiling_name": name,
        "time_created_ns": int(row["issued_ns"]),
        "input_sizes": inputs,
        "input_dtypes": [_DTYPES.get(dtype, dtype) for dtype in dtypes[0]],
        "output_sizes": outputs,
        "output_dtypes": [_DTYPES.get(dtype, dtype) for dtype in dtypes[1]],
        "state": "completed" if completed else "started" if started or state == State.RUNNING else "scheduled",
        "time_discovered_started_ns": started or None,
        "time_discovered_completed_ns": ended if completed and ended else None,
        # torch: retired and not completed means timed out or aborted.
        "retired": state.has_ended,
        "timeout_ms": int(row["timeout_ms"]),
        "is_p2p": bool(row["flags"] & Flag.P2P),
        "signature": _what_torch_has_no_place_for(signature),
        "error": record.errors[row["error"]],
    }
    if completed and started and ended >= started:
        entry["duration_ms"] = (ended - started) / 1e6
    return entry


def _what_torch_has_no_place_for(signature: Signature) -> dict[str, Any]:
    extra: dict[str, Any] = {"reduction": signature.reduction, "root": signature.root, "tag": signature.tag}
    for name in ("input_splits", "output_splits"):
        if splits := getattr(signature, name):
            extra[name] = [*splits]
    return extra


def _profiling_name(record: Record, group: Group, signature: Signature) -> str | None:
    """``nccl:all_reduce``: of the backends that torch's analyzer knows, the one whose conventions the rest follows."""
    if signature.kind in _P2P:
        members = _members(record, group)
        if signature.peer < 0 or record.rank not in members:
            return None
        arrow = "->" if signature.kind == "send" else "<-"
        return f"nccl:{signature.kind} {members.index(record.rank)}{arrow}{signature.peer}"
    if signature.kind not in _KNOWN:
        return None
    return f"nccl:{_NAMES.get(signature.kind, signature.kind)}"


def _sizes(signature: Signature) -> tuple[list[list[int]], list[list[int]]]:
    inputs = [[*shape] for shape in signature.input_sizes]
    outputs = [[*shape] for shape in signature.output_sizes]
    if signature.kind in _FLAT_INPUT:
        inputs = _flat(inputs, signature.kind)
    if signature.kind in _FLAT_OUTPUT:
        outputs = _flat(outputs, signature.kind)
    if signature.kind in _SAME_TENSOR:
        return inputs or outputs, outputs or inputs
    return inputs, outputs


def _flat(sizes: list[list[int]], kind: str) -> list[list[int]]:
    """Of tensors that differ torch's analyzer can add up those of an all_to_all; otherwise a sum would only hide it."""
    if len(sizes) > 1 and all(shape == sizes[0] for shape in sizes):
        return [[len(sizes), *sizes[0]]]
    return [[sum(map(math.prod, sizes))]] if len(sizes) > 1 and kind == "all_to_all" else sizes


def _frames(record: Record, index: int) -> list[dict[str, Any]]:
    site = record.sites[index]
    stack = site.stack or (((site.file, site.line, site.function),) if site.file else ())
    return [{"name": function, "filename": file, "line": line} for file, line, function in stack]


def file_name(record: Record, number: int) -> str:
    """What torch's tools find the rank in: a prefix and the rank, nothing else."""
    return f"pycomms_trace_{record.rank if record.rank != UNKNOWN_RANK else number}"
