"""``pycomms fr convert``: records for other tools: torch's analyzer, jq, a notebook."""

from __future__ import annotations

import argparse
import json
import pickle
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

from pycomms.flight_recorder._command import UNUSABLE
from pycomms.flight_recorder._export import file_name, to_torch
from pycomms.flight_recorder._inputs import add_paths, load_or_complain
from pycomms.flight_recorder._model import Flag, Record, State
from pycomms.flight_recorder._whole_file import whole_file
from pycomms.flight_recorder._words import group_label, signature_text, state_text


def torch_pickle(record: Record, file: IO[bytes]) -> None:
    """What ``python -m torch.distributed.flight_recorder.fr_trace`` reads. Protocol 2, as torch writes it."""
    pickle.dump(to_torch(record), file, protocol=2)


def torch_json(record: Record, file: IO[bytes]) -> None:
    file.write(_json(to_torch(record)))


def plain_json(record: Record, file: IO[bytes]) -> None:
    """One object, the entries under ``entries``."""
    file.write(_json({**_about(record), "entries": list(_entries(record))}))


def json_lines(record: Record, file: IO[bytes]) -> None:
    """The record without its entries in the first line, then an entry a line: ``jq 'select(.state == "running")'``."""
    file.write(_json(_about(record)) + b"\n")
    for entry in _entries(record):
        file.write(_json(entry) + b"\n")


FORMATS: dict[str, tuple[Callable[[Record, IO[bytes]], None], str]] = {
    "torch-pickle": (torch_pickle, ""),  # torch finds the rank at the end of the name
    "torch-json": (torch_json, ".json"),
    "json": (plain_json, ".json"),
    "jsonl": (json_lines, ".jsonl"),
}


def _json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "backslashreplace")


def _about(record: Record) -> dict[str, Any]:
    names = ("source", "writer", "version", "rank", "world_size", "host", "pid", "job", "attempt",
             "started_ns", "taken_ns", "complete", "closed", "alive", "stopped", "dropped", "stop_reason",
             "library", "warnings")  # fmt: skip
    groups = [
        {"name": group.name, "description": group.description, "ranks": group.ranks, "generation": group.generation}
        for group in record.groups
    ]
    return {"schema": 1, **{name: getattr(record, name) for name in names}, "groups": groups}


def _entries(record: Record) -> Iterator[dict[str, Any]]:
    """Each entry with its references resolved: nobody wants to look an index up in jq."""
    for row in record.entries:
        signature = record.signatures[row["signature"]]
        site = record.sites[row["site"]]
        yield {
            "id": int(row["id"]),
            "rank": record.rank,
            "group": record.groups[row["group"]].name,
            "group_label": group_label(record.groups[row["group"]]),
            "sequence": int(row["sequence"]),
            "generation": int(row["generation"]),
            "kind": signature.kind,
            "text": signature_text(signature),
            "reduction": signature.reduction,
            "root": signature.root,
            "peer": signature.peer,
            "tag": signature.tag,
            "input_sizes": signature.input_sizes,
            "output_sizes": signature.output_sizes,
            "input_dtypes": signature.input_dtypes,
            "output_dtypes": signature.output_dtypes,
            "input_splits": signature.input_splits,
            "output_splits": signature.output_splits,
            "state": state_text(State(int(row["state"]))),
            "issued_ns": int(row["issued_ns"]),
            "started_ns": int(row["started_ns"]),
            "ended_ns": int(row["ended_ns"]),
            "timeout_ms": int(row["timeout_ms"]),
            "site": str(site),
            "function": site.function,
            "stack": site.stack,
            "error": record.errors[row["error"]],
            "flags": [flag.name for flag in Flag if row["flags"] & flag],
        }


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_paths(parser)
    parser.add_argument("--to", required=True, choices=FORMATS, help="the format to write")
    parser.add_argument("-o", "--output", required=True, type=Path, metavar="DIR", help="a folder: one file a rank")


def run(arguments: argparse.Namespace) -> int:
    records = load_or_complain("convert", arguments.paths)
    if not records:
        return UNUSABLE
    write, suffix = FORMATS[arguments.to]
    folder: Path = arguments.output
    taken: set[str] = set()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for number, record in enumerate(records):
            name = file_name(record, number)
            if name in taken:  # restarted: torch holds one record a rank, and skips this name
                name = f"restarted_rank{record.rank}_{number}.earlier"
            taken.add(name)
            with whole_file(folder / (name + suffix)) as file:
                write(record, file)
    except OSError as error:
        print(f"pycomms fr convert: cannot write to {folder}: {error.strerror}", file=sys.stderr)
        return UNUSABLE
    print(f"{len(records)} files in {folder}")
    return 0
