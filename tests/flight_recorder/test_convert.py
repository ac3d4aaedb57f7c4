"""What we export is what torch's own analyzer reads, and it comes to the right result; and jq can read the rest."""

from __future__ import annotations

import argparse
import io
import json
import pickle
from dataclasses import replace
from pathlib import Path

import pytest
from torch.distributed.flight_recorder import fr_trace

from pycomms.flight_recorder import _bundle, _convert
from pycomms.flight_recorder._export import to_torch
from pycomms.flight_recorder._model import Flag, Group, Record, Signature, Site, State

from ._jobs import MS, Rank, healthy, missing_rank, signature, world_group


def convert(records: list[Record], form: str, folder: Path) -> Path:
    _bundle.write(folder / "job", records)
    parser = argparse.ArgumentParser()
    _convert.add_arguments(parser)
    output = folder / "out"
    assert _convert.run(parser.parse_args([str(folder / "job"), "--to", form, "-o", str(output)])) == 0
    return output


def every_kind(size: int = 2) -> list[Record]:
    """Every collective, with the shapes of each that torch's analyzer is particular about."""
    group = world_group(size)
    each, whole = (8,), (8 * size,)

    def tensors(inputs: tuple[tuple[int, ...], ...], outputs: tuple[tuple[int, ...], ...], kind: str) -> Signature:
        return Signature(
            kind=kind,
            input_sizes=inputs,
            output_sizes=outputs,
            input_dtypes=("bfloat16",) * len(inputs),
            output_dtypes=("bfloat16",) * len(outputs),
        )

    records = []
    for rank in range(size):
        writer = Rank(rank=rank, world_size=size)
        for sequence, what in enumerate(
            [
                tensors((each,), (each,), "all_reduce"),
                tensors((each,), (each,) * size, "all_gather"),
                tensors((each,), (whole,), "all_gather_single"),
                tensors((each,) * size, (each,), "reduce_scatter"),
                tensors((whole,), (each,), "reduce_scatter_single"),
                tensors((each,) * size, (each,) * size, "all_to_all"),
                tensors((whole,), (whole,), "all_to_all_single"),
                tensors((each,) if rank == 0 else (), () if rank == 0 else (each,), "broadcast"),
                tensors((each,), (each,) if rank == 0 else (), "reduce"),
                tensors((each,), (each,) * size if rank == 0 else (), "gather"),
                tensors((each,) * size if rank == 0 else (), (each,), "scatter"),
                tensors((), (), "barrier"),
            ],
            1,
        ):
            writer.op(group, what, sequence, at=sequence * 10 * MS)
        records.append(writer.record(taken=10**9))
    return records


def judged_by_torch(folder: Path) -> list[tuple[int, bool, set[int] | None]]:
    """(sequence, matched, missing ranks) of each collective, as torch's ``fr_trace`` puts them into its file."""
    output = folder.parent / "judged"
    fr_trace.main([str(folder), "-o", str(output)])
    with output.open("rb") as file:
        _, database = pickle.load(file)
    return [(one.collective_seq_id, one.pass_check, one.missing_ranks) for one in database.collectives]


@pytest.mark.parametrize("records", [healthy(), every_kind()], ids=["job", "every kind"])
def test_torch_finds_nothing_wrong_with_a_healthy_job(records: list[Record], tmp_path: Path) -> None:
    judged = judged_by_torch(convert(records, "torch-pickle", tmp_path))
    assert judged == [(sequence, True, None) for sequence in range(1, 13)]


def test_torch_finds_the_rank_that_is_missing(tmp_path: Path) -> None:
    judged = judged_by_torch(convert(missing_rank(), "torch-pickle", tmp_path))
    missing = [(sequence, ranks) for sequence, _, ranks in judged if ranks]
    assert (6, {5}) in missing
    assert all(ranks is None for sequence, _, ranks in judged if sequence < 6)


def test_the_pickle_needs_no_class() -> None:
    class Nothing(pickle.Unpickler):
        def find_class(self, module: str, name: str) -> object:
            raise AssertionError(f"{module}.{name}")

    file = io.BytesIO()
    for record in missing_rank():
        file.seek(0)
        _convert.torch_pickle(record, file)
        file.seek(0)
        assert Nothing(file).load() == to_torch(record)


def test_the_json_of_torch_holds_the_same(tmp_path: Path) -> None:
    folder = convert(missing_rank(), "torch-json", tmp_path)
    read = json.loads((folder / "pycomms_trace_4.json").read_text())
    assert read["version"] == "2.10"
    assert read["pg_config"]["3"] == {"name": "3", "desc": "tp2", "ranks": "[4, 5]"}
    last = read["entries"][-1]
    assert last["profiling_name"] == "nccl:all_reduce"
    assert last["process_group"] == ["3", "tp2"]
    assert (last["collective_seq_id"], last["state"], last["is_p2p"]) == (6, "started", False)
    assert last["frames"] == [{"name": "forward", "filename": "layers/mlp.py", "line": 88}]
    assert last["time_discovered_completed_ns"] is None
    assert last["input_dtypes"] == ["Float"]


def test_messages_name_ranks_of_the_group_and_close_their_batch() -> None:
    writer = Rank(rank=6, world_size=8)
    group = Group(name="5", description="pp", ranks=(2, 6))
    for kind in ("send", "recv"):
        writer.op(group, signature(kind, peer=0), 1, at=MS, flags=Flag.COALESCED)
    dump = to_torch(writer.record(taken=10 * MS))
    names = [entry["profiling_name"] for entry in dump["entries"]]
    assert names == ["nccl:send 1->0", "nccl:recv 1<-0", "nccl:coalesced"]
    assert [entry["p2p_seq_id"] for entry in dump["entries"]] == [1, 1, 1]


def test_what_torch_cannot_hold_is_said() -> None:
    writer = Rank(rank=0, world_size=2)
    writer.op(world_group(2), signature("all_reduce"), 0, at=0, state=State.REJECTED, error="not contiguous")
    writer.op(world_group(2), signature("recv", peer=-2), 1, at=0)
    dump = to_torch(writer.record(taken=MS))
    assert dump["entries"] == []
    assert dump["left_out"][0] == "rejected: all_reduce sum float32[256]: not contiguous"
    assert "from any rank" in dump["left_out"][1]


def test_a_rank_that_was_restarted_does_not_confuse_torch(tmp_path: Path) -> None:
    records = healthy(size=2)
    folder = convert([*records, replace(records[0], pid=1)], "torch-pickle", tmp_path)
    assert len([*folder.iterdir()]) == 3
    assert len(judged_by_torch(folder)) == 12


def test_generations_are_groups_of_their_own() -> None:
    writer = Rank(rank=0, world_size=1)
    for generation in (0, 1):
        writer.op(replace(world_group(1), generation=generation), signature("barrier"), 1, at=0)
    assert [*to_torch(writer.record(taken=MS))["pg_config"]] == ["0", "0.g1"]


@pytest.mark.parametrize("form", ["json", "jsonl"])
def test_plain_formats_hold_resolved_entries(form: str, tmp_path: Path) -> None:
    file = convert(missing_rank(), form, tmp_path) / f"pycomms_trace_4.{form}"
    if form == "json":
        entries = json.loads(file.read_text())["entries"]
    else:
        about, *entries = map(json.loads, file.read_text().splitlines())
        assert (about["schema"], about["rank"]) == (1, 4)
    assert len(entries) == 11
    last = entries[-1]
    assert (last["kind"], last["group_label"], last["sequence"], last["state"]) == ("all_reduce", "tp2", 6, "running")
    assert last["site"] == "layers/mlp.py:88"


def test_a_site_without_a_stack_is_a_frame() -> None:
    writer = Rank(rank=0, world_size=1)
    writer.op(world_group(1), signature("barrier"), 1, at=0, site=Site(file="a.py", line=2, function="f"))
    (entry,) = to_torch(writer.record(taken=MS))["entries"]
    assert entry["frames"] == [{"name": "f", "filename": "a.py", "line": 2}]
