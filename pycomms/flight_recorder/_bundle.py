"""Many records in one file, which is safe to read: JSON lines, the entries of each record packed into its line.

Line 1 says what the file is and how rows are laid out; then each line is one record; the last says how many there are.
A file that was cut off gives every record whose line is complete. Nothing in it is ever executed, and rows are unpacked
into numbers only.
"""

from __future__ import annotations

import base64
import binascii
import dataclasses
import json
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from pycomms.flight_recorder._model import ENTRY, Entries, Group, Record, Signature, Site
from pycomms.flight_recorder._whole_file import whole_file

MAGIC = '{"pycomms_fr_bundle":'
VERSION = 1

LARGEST = 1 << 30
"""Bytes that the rows of one record may unpack to: a line of a few kB could claim any amount."""

_LAYOUT = [[name, ENTRY.fields[name][0].str] for name in ENTRY.names or ()] if ENTRY.fields else []


def is_bundle(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(len(MAGIC)) == MAGIC.encode()


def write(path: Path, records: Iterable[Record]) -> int:
    """Returns the number of records. The file appears when it is whole."""
    count = 0
    with whole_file(path) as file:
        file.write(f"{MAGIC}{VERSION},{json.dumps({'rows': _LAYOUT})[1:]}\n".encode())
        for record in records:
            file.write(json.dumps(_plain(record), ensure_ascii=False, separators=(",", ":")).encode() + b"\n")
            count += 1
        file.write(f'{{"records":{count}}}\n'.encode())
    return count


def _plain(record: Record) -> dict[str, Any]:
    rows = np.asarray(record.entries)
    # A column at a time: neighbours in time look alike, rows do not. A quarter of the size.
    packed = zlib.compress(b"".join(np.ascontiguousarray(rows[name]).tobytes() for name, _ in _LAYOUT), 1)
    fields = {
        field.name: getattr(record, field.name)
        for field in dataclasses.fields(record)
        if field.name not in ("entries", "groups", "signatures", "sites")
    }
    return {
        **fields,
        "groups": [dataclasses.asdict(group) for group in record.groups],
        "signatures": [dataclasses.asdict(signature) for signature in record.signatures],
        "sites": [dataclasses.asdict(site) for site in record.sites],
        "count": len(rows),
        "packed": base64.b64encode(packed).decode("ascii"),
    }


def read(path: Path) -> Iterator[Record]:
    """The records, one after the other.

    Raises ValueError when the file is no bundle, is of a version that is not known, or, after the last record that is
    whole, when it was cut off or damaged: what follows cannot be trusted.
    """
    with path.open(encoding="utf-8", errors="replace", newline="\n") as file:
        head = file.readline()
        try:
            about = json.loads(head)
            version, layout = about["pycomms_fr_bundle"], about["rows"]
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise ValueError(f"{path}: not a file of pycomms fr merge") from error
        if version != VERSION or layout != _LAYOUT:
            raise ValueError(f"{path}: a bundle of version {version!r}; this pycomms reads version {VERSION}")
        count = 0
        for line in file:
            try:
                plain = json.loads(line)
                if plain == {"records": count}:
                    return
                record = _record(plain)
            except (
                ValueError,
                KeyError,
                TypeError,
                AttributeError,
                OverflowError,
                RecursionError,
                zlib.error,
                binascii.Error,
            ) as error:
                raise ValueError(f"{path}: damaged after {count} records, which were read") from error
            count += 1
            yield record
        raise ValueError(f"{path}: cut off after {count} records, which were read")


def _record(plain: dict[str, Any]) -> Record:
    given = dict(plain)
    rows = _rows(given.pop("count"), given.pop("packed"))
    record = Record(
        **{
            **given,
            "errors": tuple(given["errors"]),
            "warnings": tuple(given["warnings"]),
            "groups": tuple(Group(**_frozen(group)) for group in given["groups"]),
            "signatures": tuple(Signature(**_frozen(signature)) for signature in given["signatures"]),
            "sites": tuple(Site(**_frozen(site)) for site in given["sites"]),
        },
        entries=rows,
    )
    for column, table in (("group", record.groups), ("signature", record.signatures), ("site", record.sites),
                          ("error", record.errors)):  # fmt: skip
        if len(rows) and rows[column].max() >= len(table):
            raise ValueError(f"{column} out of range")
    return record


def _rows(count: int, packed: str) -> Entries:
    size = count * sum(np.dtype(form).itemsize for _, form in _LAYOUT)
    if not 0 <= size <= LARGEST:
        raise ValueError("rows of an impossible size")
    data = zlib.decompressobj().decompress(base64.b64decode(packed, validate=True), size + 1)
    if len(data) != size:
        raise ValueError("rows of another size than said")
    rows = np.zeros(count, ENTRY)
    at = 0
    for name, form in _LAYOUT:
        rows[name] = np.frombuffer(data, form, count, at)
        at += count * np.dtype(form).itemsize
    return rows


def _frozen(fields: dict[str, Any]) -> dict[str, Any]:
    """JSON has lists where the model has tuples."""
    return {name: _tuples(value) for name, value in fields.items()}


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value
