"""Records written down as torch writes them, so that tests go through files as users do."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

from pycomms.flight_recorder._model import UNKNOWN_RANK, Flag, Group, Record, Signature, State

_STATES = {State.ISSUED: "scheduled", State.RUNNING: "started", State.COMPLETED: "completed"}


def torch_dump(record: Record, *, backend: str = "nccl", frames: bool = True) -> dict[str, Any]:
    """The object that torch would pickle. What torch does not record goes where our own dumps put it.

    As nccl, states are written as they are; as gloo, an operation that ended is retired and stays scheduled; as the
    hook, every operation is.
    """
    entries = []
    for row in record.entries:
        signature = record.signatures[int(row["signature"])]
        group = record.groups[int(row["group"])]
        p2p = bool(int(row["flags"]) & Flag.P2P)
        state = State(int(row["state"]))
        entry: dict[str, Any] = {
            "record_id": int(row["id"]),
            "pg_id": int(row["group"]),
            "process_group": (group.name, group.description),
            "collective_seq_id": 0 if p2p else int(row["sequence"]),
            "p2p_seq_id": int(row["sequence"]) if p2p else 0,
            "op_id": int(row["id"]),
            "profiling_name": _name(signature, _own(record, group), backend),
            "time_created_ns": int(row["issued_ns"]),
            "input_sizes": [list(shape) for shape in signature.input_sizes],
            "input_dtypes": list(signature.input_dtypes),
            "output_sizes": [list(shape) for shape in signature.output_sizes],
            "output_dtypes": list(signature.output_dtypes),
            "state": _STATES.get(state, "scheduled") if backend == "nccl" else "scheduled",
            "time_discovered_started_ns": int(row["started_ns"]) or None,
            "time_discovered_completed_ns": int(row["ended_ns"]) or None,
            "retired": backend == "hook" or state is State.COMPLETED,
            "timeout_ms": int(row["timeout_ms"]),
            "is_p2p": p2p,
        }
        if frames:
            site = record.sites[int(row["site"])]
            entry["frames"] = [
                {"name": "wrapper", "filename": "/site-packages/torch/distributed/c10d_logger.py", "line": 83},
                {"name": site.function, "filename": site.file, "line": site.line},
            ]
        extra = _extra(signature)
        if extra:
            entry["signature"] = extra
        entries.append(entry)
    if any("signature" in entry for entry in entries):
        for entry in entries:
            entry.setdefault("signature", {})
    return {
        "version": "2.10",
        "pg_config": {
            group.name: {"name": group.name, "desc": group.description, "ranks": str(list(group.ranks))}
            for group in record.groups
            if group.ranks
        },
        "comm_lib_version": "2.27.3",
        "pg_status": {},
        "entries": entries,
    }


def _own(record: Record, group: Group) -> int:
    return group.ranks.index(record.rank) if group.ranks else record.rank


def _name(signature: Signature, own: int, backend: str) -> str:
    prefix = {"hook": "c10d"}.get(backend, backend)
    arrows = {"send": f" {own}->{signature.peer}", "recv": f" {own}<-{signature.peer}"}
    return f"{prefix}:{signature.kind}{arrows.get(signature.kind, '')}"


def _extra(signature: Signature) -> dict[str, Any]:
    extra: dict[str, Any] = {}
    if signature.reduction:
        extra["reduction"] = signature.reduction
    if signature.root != UNKNOWN_RANK:
        extra["root"] = signature.root
    if signature.tag:
        extra["tag"] = signature.tag
    if signature.input_splits:
        extra["input_splits"] = list(signature.input_splits)
        extra["output_splits"] = list(signature.output_splits)
    return extra


def write_pickles(records: list[Record], folder: Path, **options: Any) -> list[Path]:
    """One file per rank, named as torch names them."""
    paths = []
    for record in records:
        path = folder / f"nccl_trace_rank_{record.rank}"
        path.write_bytes(pickle.dumps(torch_dump(record, **options), protocol=2))
        paths.append(path)
    return paths


def write_json(records: list[Record], folder: Path, **options: Any) -> list[Path]:
    paths = []
    for record in records:
        dump = torch_dump(record, frames=False, **options)
        if not dump["entries"]:
            del dump["entries"]  # torch leaves it out
        path = folder / f"host07_rank{record.rank}.json"
        path.write_text(json.dumps(dump), encoding="utf-8")
        paths.append(path)
    return paths
