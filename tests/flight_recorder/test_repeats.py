"""Entries that repeat others are taken out before a pickle is loaded: the record must be the same as without that."""

from __future__ import annotations

import pickle
import pickletools
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pycomms.flight_recorder import _load
from pycomms.flight_recorder._model import Record
from pycomms.flight_recorder._repeats import take_out
from pycomms.flight_recorder._torch_dumps import NotADump, to_record
from pycomms.flight_recorder._unpickle import RefusedPickle, loads

_START = 1_700_000_000_000_000_000


def _as_torch(dump: Any) -> bytes:
    """torch remembers only what it writes more than once: strings, and frames that entries share."""
    return pickletools.optimize(pickle.dumps(dump, protocol=2))


def _job(seed: int, count: int) -> dict[str, Any]:
    """Operations of a few kinds in a random order, with numbers that need one byte, two, four and eight."""
    rng = random.Random(seed)
    frames = [{"name": f"f{i}", "filename": f"train_{i}.py", "line": 300 * i} for i in range(12)]
    kinds = [
        (name, [[rng.choice((1, 300, 70_000)) for _ in range(rng.randint(0, 3))] for _ in range(rng.randint(0, 3))])
        for name in ("nccl:all_reduce", "nccl:send 0->1", "nccl:recv 0<-1", "nccl:coalesced", "nccl:_all_gather_base")
    ]
    stacks = [frames[i : i + rng.randint(0, 4)] for i in range(6)]
    groups = [("0", "default_pg"), ("7", "tp"), ("12", "dp")]
    first = rng.choice((0, 1, 250, 65_500, 2**31 - 5000))
    entries = []
    for i in range(count):
        name, sizes = rng.choice(kinds)
        ended = rng.random() < 0.9
        entries.append(
            {
                "frames": list(rng.choice(stacks)),
                "record_id": first + i,
                "pg_id": 0,
                "process_group": tuple(rng.choice(groups)) if rng.random() < 0.9 else ("new", f"group {i}"),
                "collective_seq_id": first + i // 2,
                "p2p_seq_id": i // 3,
                "op_id": i,
                "profiling_name": name,
                "time_created_ns": _START + i if rng.random() < 0.95 else -i,
                "duration_ms": rng.choice((0.5, 7, None)),
                "input_sizes": [list(shape) for shape in sizes],
                "input_dtypes": ["Float"] * len(sizes),
                "output_sizes": [list(shape) for shape in sizes[:1]],
                "output_dtypes": ["Float"],
                "state": "completed" if ended else "scheduled",
                "time_discovered_started_ns": _START + i if ended else None,
                "time_discovered_completed_ns": _START + i + rng.choice((0, 2**40)) if ended else None,
                "retired": ended,
                "timeout_ms": 600_000,
                "is_p2p": "send" in name or "recv" in name,
            }
        )
    return {"version": "2.10", "pg_config": {}, "entries": entries}


def _whole(data: bytes) -> Record:
    found, complete = loads(data)
    return to_record(found, source="", rank=0, complete=complete)


def _assert_same(found: Record, expected: Record) -> None:
    rows, others = found.entries, expected.entries
    assert len(rows) == len(others)
    for name in rows.dtype.names or ():
        if name not in ("signature", "site", "group"):
            np.testing.assert_array_equal(rows[name], others[name], name)
    for name, table in (("signature", "signatures"), ("site", "sites"), ("group", "groups")):
        here, there = getattr(found, table), getattr(expected, table)
        assert [here[i] for i in rows[name]] == [there[i] for i in others[name]], name
    assert (found.dropped, found.complete, found.writer) == (expected.dropped, expected.complete, expected.writer)
    assert found.warnings == expected.warnings


@pytest.mark.parametrize("seed", range(8))
def test_the_record_is_the_same(seed: int, tmp_path: Path) -> None:
    data = _as_torch(_job(seed, 700))
    assert take_out(data) is not None
    path = tmp_path / "nccl_trace_rank_0"
    path.write_bytes(data)
    _assert_same(_load.read(path), _whole(data))


def test_few_entries_are_loaded() -> None:
    taken = take_out(_as_torch(_job(3, 700)))
    assert taken is not None
    assert taken.kept < 450  # a tenth of the entries are of groups of their own


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9, 0.999])
def test_a_pickle_that_ends_in_the_middle(share: float, tmp_path: Path) -> None:
    data = _as_torch(_job(1, 300))
    cut = data[: int(len(data) * share)]
    path = tmp_path / "nccl_trace_rank_0"
    path.write_bytes(cut)
    _assert_same(_load.read(path), _whole(cut))


@pytest.mark.parametrize("seed", range(16))
def test_damage_changes_nothing_either(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    data = bytearray(_as_torch(_job(seed, 80)))
    for _ in range(rng.randint(1, 3)):
        data[rng.randrange(len(data))] = rng.randrange(256)
    path = tmp_path / "nccl_trace_rank_0"
    path.write_bytes(data)
    try:
        expected = _whole(bytes(data))
    except Exception:
        with pytest.raises((NotADump, RefusedPickle, ValueError)):
            _load.read(path)
        return
    _assert_same(_load.read(path), expected)


@pytest.mark.parametrize(
    "change",
    [
        lambda entry: entry.update(state=["completed"]),
        lambda entry: entry.update(record_id=None),
        lambda entry: entry.update(frames=None),
        lambda entry: entry.update(extra={"a": 1}),
        lambda entry: entry.pop("input_sizes"),
        lambda entry: entry.pop("timeout_ms"),
        lambda entry: entry.update(process_group="0"),
        lambda entry: entry.update(time_created_ns=2**63 - 1),
        lambda entry: entry.update(collective_seq_id=1.0),
        lambda entry: entry.update(input_sizes="u}(entries"),
    ],
)
@pytest.mark.parametrize("every", [1, 3])
def test_entries_of_another_form(change: Any, every: int, tmp_path: Path) -> None:
    dump = _job(2, 90)
    for entry in dump["entries"][::every]:
        change(entry)
    data = _as_torch(dump)
    path = tmp_path / "nccl_trace_rank_0"
    path.write_bytes(data)
    try:
        expected = _whole(data)
    except NotADump:
        with pytest.raises(NotADump):
            _load.read(path)
        return
    _assert_same(_load.read(path), expected)


def test_a_class_among_the_entries_is_refused(tmp_path: Path) -> None:
    data = _as_torch(_job(0, 300)).replace(b"X\x09\x00\x00\x00completed", b"cposix\nsystem\n", 1)
    path = tmp_path / "nccl_trace_rank_0"
    path.write_bytes(data)
    with pytest.raises(RefusedPickle):
        _load.read(path)
