"""Reading files: whole and cut off, of every writer, among strays, and hostile ones."""

from __future__ import annotations

import json
import os
import pickle
import random
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from pycomms.flight_recorder._load import find_files, load, rank_in_name
from pycomms.flight_recorder._model import UNKNOWN_RANK, Flag, Record, State
from pycomms.flight_recorder._report import to_text
from pycomms.flight_recorder._torch_dumps import NotADump, to_record
from pycomms.flight_recorder._unpickle import RefusedPickle, loads
from pycomms.flight_recorder.analysis import Verdict, analyze
from tests.flight_recorder.corpus import AG, AR, BC, RS, loop, world
from tests.flight_recorder.corpus_absent import last_collective_skipped_by_one_rank
from tests.flight_recorder.dumps import torch_dump, write_json, write_pickles
from tests.flight_recorder.simulator import run


@pytest.fixture(scope="module")
def job() -> list[Record]:
    return run(world(4), lambda rank: loop(60, AR, AG, RS, BC)).records()


@pytest.mark.parametrize("protocol", [2, 4, 5])  # torch writes 2, Python 4 or 5
@pytest.mark.parametrize("percent", [1, 10, 50, 90, 99])
def test_every_complete_entry_of_a_cut_pickle_is_recovered(job: list[Record], protocol: int, percent: int) -> None:
    dump = torch_dump(job[1])
    whole = pickle.dumps(dump, protocol=protocol)
    data = whole[: len(whole) * percent // 100]
    found, complete = loads(data)
    assert not complete
    record = to_record(found, source="x", rank=1, complete=complete)
    entries = dump["entries"]
    # How many entries could be there: those whose own pickle, with all before them, is not longer than what is left.
    last = max((n for n in range(0, len(entries) + 1, 8) if _end_of_entry(dump, n, protocol) <= len(data)), default=0)
    assert len(record.entries) >= 0.99 * last
    assert (record.entries == job_entries(job[1], len(record.entries))).all()


def _end_of_entry(dump: dict[str, object], count: int, protocol: int) -> int:
    entries = dump["entries"]
    assert isinstance(entries, list)
    return len(pickle.dumps({**dump, "entries": entries[:count]}, protocol=protocol))


def job_entries(record: Record, count: int) -> object:
    return to_record(torch_dump(record), source="x", rank=1, complete=True).entries[:count]


@pytest.mark.parametrize("percent", [10, 50, 90, 99])
def test_every_complete_entry_of_a_cut_json_is_recovered(job: list[Record], tmp_path: Path, percent: int) -> None:
    (path,) = write_json(job[:1], tmp_path)
    text = path.read_text(encoding="utf-8")
    dump = json.loads(text)
    path.write_text(
        json.dumps({"entries": dump.pop("entries"), **dump})[: len(text) * percent // 100], encoding="utf-8"
    )
    (record,) = load([path]).records
    assert not record.complete
    assert abs(len(record.entries) - 240 * percent / 100) < 10


class _Runs:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.system, ("exit 1",)


class _Persists(pickle.Pickler):
    def persistent_id(self, obj: object) -> str | None:
        return "anything" if obj == "entries" else None


def _with_persistent_id() -> bytes:
    import io

    file = io.BytesIO()
    _Persists(file).dump({"entries": []})
    return file.getvalue()


HOSTILE = {
    "reduce": pickle.dumps({"entries": [_Runs()]}),
    "global": b"cos\nsystem\n(S'exit 1'\ntR.",
    "truncated after the call": b"cos\nsystem\n(S'exit 1'\ntR",
    "inst": b"(S'exit 1'\nios\nsystem\n.",
    "persistent": _with_persistent_id(),
    "extension": b"\x80\x02\x82\x01.",
    "stack_global": b"\x80\x04\x8c\x02os\x8c\x06system\x93.",
}


@pytest.mark.parametrize("data", HOSTILE.values(), ids=HOSTILE)
def test_a_pickle_that_names_anything_is_refused(data: bytes, tmp_path: Path) -> None:
    (tmp_path / "rank_0").write_bytes(data)
    try:
        loads(data)
    except RefusedPickle:
        pass
    except ValueError:
        assert data[:1] == b"\x80"
        assert b"\x82" in data  # an extension that nobody registered cannot even be named
    else:
        pytest.fail("read")


@pytest.mark.parametrize("damage", ["", "the second half lost"])
def test_nothing_runs_and_the_exit_code_says_so(tmp_path: Path, damage: str) -> None:
    write_pickles(last_collective_skipped_by_one_rank(), tmp_path)
    proof = tmp_path.parent / f"{tmp_path.name}.ran"

    class Touches:
        def __reduce__(self) -> tuple[object, tuple[str, str]]:
            return open, (str(proof), "w")

    data = pickle.dumps({"entries": [Touches()], "version": "2.10", "padding": ["x"] * 100})
    (tmp_path / "nccl_trace_rank_3").write_bytes(data[: len(data) // 2] if damage else data)
    ended = _analyze(str(tmp_path))
    assert not proof.exists()
    assert ended.returncode == 3
    assert "refused" in ended.stderr


BOMBS: dict[str, Callable[[], bytes]] = {
    "memo index": lambda: b"\x80\x02}r\xff\xff\xff\xff.",
    "length": lambda: b"\x80\x04\x8d\xff\xff\xff\xff\xff\xff\xff\x7fabc",
    "nesting": lambda: b"\x80\x02" + b"]" * 200_000 + b"a" * 199_999 + b".",
    "marks": lambda: b"\x80\x02" + b"(" * 500_000,
    "number": lambda: b"\x80\x02\x8b\xff\xff\xff\x7f" + b"\xff" * 1000,
    "digits": lambda: b"I" + b"9" * 100_000 + b"\n.",
    "build": lambda: b"\x80\x02}U\x01aU\x01bsb.",
}


@pytest.mark.parametrize("make", BOMBS.values(), ids=BOMBS)
def test_bombs_do_no_harm(make: Callable[[], bytes], tmp_path: Path) -> None:
    path = tmp_path / "rank_0"
    path.write_bytes(make())
    loaded = load([path])
    assert not any(len(record.entries) for record in loaded.records)


@pytest.mark.parametrize("seed", range(20))
def test_flipped_bytes_are_no_reason_to_fall_over(seed: int, tmp_path: Path) -> None:
    """Whatever comes out: the analyzer says something about it."""
    chance = random.Random(seed)
    records = last_collective_skipped_by_one_rank()
    for writer in (write_pickles, write_json):
        paths = writer(records, tmp_path)
        for path in paths[:4]:
            data = bytearray(path.read_bytes())
            for _ in range(chance.choice((1, 3, 20))):
                data[chance.randrange(len(data))] = chance.randrange(256)
            path.write_bytes(data)
        loaded = load(paths)
        assert to_text(analyze(loaded.records, loaded.warnings), explain=True)


def test_a_key_that_cannot_be_one_and_a_mark_that_was_never_set() -> None:
    assert loads(b"\x80\x02}(]K\x01X\x05\x00\x00\x00state") == ({}, False)
    with pytest.raises(ValueError, match="nothing of it is complete"):
        loads(b"\x80\x021")


def test_deeply_nested_json_does_no_harm(tmp_path: Path) -> None:
    path = tmp_path / "rank_0.json"
    path.write_text('{"entries": [' + "[" * 200_000, encoding="utf-8")
    assert not any(len(record.entries) for record in load([path]).records)


@pytest.mark.parametrize(
    "data",
    [
        b'{"pg_config": ' + b"[" * 200_000 + b"]" * 200_000 + b', "entries": []}',
        # {"entries": [], "version": [[[…]]]}
        b"\x80\x02}(X\x07\x00\x00\x00entries]X\x07\x00\x00\x00version" + b"]" * 200_000 + b"a" * 199_999 + b"u.",
    ],
    ids=["json", "pickle"],
)
def test_what_is_nested_too_deep_does_not_keep_others_from_being_read(
    data: bytes, job: list[Record], tmp_path: Path
) -> None:
    deep = tmp_path / "rank_0"
    deep.write_bytes(data)
    found = load([deep, *write_json(job[1:2], tmp_path)])
    assert [record.rank for record in found.records] == [1]
    assert [said.partition(": ")[0] for said in found.unreadable] == [f"cannot read {deep}"]


def test_strays_empty_files_and_nested_folders(tmp_path: Path) -> None:
    records = last_collective_skipped_by_one_rank()
    for record in records:
        folder = tmp_path / f"host{record.rank // 4}" / "traces"
        folder.mkdir(parents=True, exist_ok=True)
        writer = write_json if record.rank % 2 else write_pickles
        writer([record], folder)
    (tmp_path / "README.md").write_text("notes", encoding="utf-8")
    (tmp_path / "host0" / "core.1234").write_bytes(b"\x7fELF" + bytes(1000))
    (tmp_path / "host0" / "settings.json").write_text('{"a": 1}', encoding="utf-8")
    (tmp_path / "host1" / "nccl_trace_rank_9").write_bytes(b"")
    (tmp_path / "other.pkl").write_bytes(pickle.dumps([1, 2, 3]))
    os.mkfifo(tmp_path / "pipe")
    files, nothing = find_files([str(tmp_path)])
    assert not nothing
    loaded = load(files)
    assert [record.rank for record in sorted(loaded.records, key=lambda one: one.rank)] == list(range(8))
    assert len(loaded.strays) == 5
    assert len(loaded.unreadable) == 1
    assert "empty" in loaded.unreadable[0]
    analysis = analyze(loaded.records, loaded.warnings)
    assert (analysis.verdict, analysis.root_ranks) == (Verdict.MISSING_RANK, (5,))


def test_patterns_and_paths_with_nothing(tmp_path: Path) -> None:
    write_pickles(last_collective_skipped_by_one_rank(), tmp_path)
    files, nothing = find_files([f"{tmp_path}/nccl_trace_rank_[0-3]", f"{tmp_path}/no*", "/does/not/exist"])
    assert len(files) == 4
    assert nothing == [f"{tmp_path}/no*", "/does/not/exist"]


@pytest.mark.parametrize(
    "name, rank",
    [
        ("nccl_trace_rank_3", 3),
        ("host07_rank3.json", 3),
        ("comm_lib_trace_12", 12),
        ("rank5.1234.ring", 5),
        ("node-17-rank-6.pkl", 6),
        ("trace.pkl", UNKNOWN_RANK),
    ],
)
def test_the_rank_in_a_file_name(name: str, rank: int) -> None:
    assert rank_in_name(name) == rank


def test_a_file_without_a_rank_is_that_of_the_only_rank_left(tmp_path: Path) -> None:
    paths = write_pickles(last_collective_skipped_by_one_rank(), tmp_path)
    paths[5] = paths[5].rename(tmp_path / "somebody.pkl")
    analysis = analyze(load(paths).records)
    assert (analysis.verdict, analysis.root_ranks) == (Verdict.MISSING_RANK, (5,))


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.4", "2.10"])
def test_formats_of_older_torch(version: str) -> None:
    record = last_collective_skipped_by_one_rank()[0]
    dump = torch_dump(record)
    dump["version"] = version
    for entry in dump["entries"]:
        for newer in ("thread_id", "op_id", "signature"):
            entry.pop(newer, None)
        if version in ("2.0", "2.1"):
            entry["seq_id"] = entry.pop("collective_seq_id")
            for newer in ("p2p_seq_id", "is_p2p", "timeout_ms", "input_dtypes", "output_dtypes"):
                entry.pop(newer)
    read = to_record(dump, source="x", rank=0, complete=True)
    assert read.version == version
    assert (read.entries["sequence"] == record.entries["sequence"]).all()
    assert (read.entries["state"] == record.entries["state"]).all()


def test_gloo_says_what_ended_and_the_hook_does_not() -> None:
    record = last_collective_skipped_by_one_rank()[0]
    gloo = to_record(torch_dump(record, backend="gloo"), source="x", rank=0, complete=True)
    assert gloo.writer == "gloo"
    assert gloo.entries["state"].tolist() == [State.COMPLETED] * 20 + [State.ISSUED]
    hook = to_record(torch_dump(record, backend="hook"), source="x", rank=0, complete=True)
    assert hook.writer == "hook"
    assert ((hook.entries["flags"] & Flag.NO_COMPLETION) != 0).all()
    assert ((hook.entries["flags"] & Flag.NO_POST) == 0).all()


@pytest.mark.parametrize("backend", ["gloo", "hook"])
def test_one_op_more_of_a_recorder_that_marks_no_end_is_undecided(backend: str, tmp_path: Path) -> None:
    ended = run(world(4), lambda rank: loop(10, AR)).records()
    records = [replace(ended[0], entries=ended[0].entries[:-1]), *ended[1:]]
    analysis = analyze(load(write_pickles(records, tmp_path, backend=backend)).records)
    assert analysis.verdict is Verdict.INSUFFICIENT_DATA
    assert analysis.root_ranks == ()
    assert "second dump" in analysis.findings[0].would_decide


def test_the_time_of_the_file_tells_a_running_job_from_a_stuck_one(tmp_path: Path) -> None:
    job = run(world(4), lambda rank: [*loop(10, AR), replace(AR, think_ns=(rank + 1) * 10_000_000)])
    now = job.issued_ns(1, -1) + 1_000_000
    paths = write_pickles(job.records(until_ns=dict.fromkeys(range(4), now)), tmp_path)
    for path in paths:
        os.utime(path, ns=(now, now))
    assert analyze(load(paths).records).verdict is Verdict.HEALTHY
    for path in paths:
        os.utime(path, ns=(now, now + 60_000_000_000))
    analysis = analyze(load(paths).records)
    assert (analysis.verdict, analysis.root_ranks) == (Verdict.MISSING_RANK, (2, 3))


def test_unknown_backend_and_unknown_form() -> None:
    dump = torch_dump(last_collective_skipped_by_one_rank()[0], backend="warp")
    assert any("unknown backend" in text for text in to_record(dump, source="x", rank=0, complete=True).warnings)
    strange: object
    for strange in ([], {"entries": 3}, {"a": 1}, {"entries": [{"state": 1, "profiling_name": 2, "process_group": 3}]}):
        with pytest.raises(NotADump):
            to_record(strange, source="x", rank=0, complete=True)


def _analyze(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pycomms", "fr", "analyze", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
