"""Latencies, bandwidths and stragglers of jobs whose figures are known."""

from __future__ import annotations

import json

import numpy as np
import pytest

from pycomms.flight_recorder import _stats
from pycomms.flight_recorder._clocks import align
from pycomms.flight_recorder._model import Record, State

from ._jobs import MS, Rank, healthy, missing_rank, signature, world_group


@pytest.mark.parametrize(
    "kind, ranks, factor",
    [
        ("all_reduce", 8, 1.75),
        ("all_gather_single", 8, 0.875),
        ("reduce_scatter", 4, 0.75),
        ("all_to_all_single", 4, 0.75),
        ("broadcast", 8, 1.0),
        ("send", 8, 1.0),
        ("all_reduce", 1, 1.0),
    ],
)
def test_bus_factors_are_those_of_nccl_tests(kind: str, ranks: int, factor: float) -> None:
    assert _stats.bus_factor(kind, ranks) == factor


def test_size_classes_are_powers_of_two() -> None:
    assert [_stats.size_class(count) for count in (0, 1, 2, 3, 4, 1024, 1025)] == [0, 1, 2, 4, 4, 1024, 2048]


def test_latency_and_bandwidth_of_one_kind() -> None:
    writer = Rank(rank=0, world_size=4)
    for sequence in range(1, 101):
        # The recorder starts an operation after a tenth of its time: 0.9 ms, 1.8 ms, ... 90 ms.
        writer.op(world_group(4), signature("all_reduce", 2**20), sequence, at=sequence * 1000 * MS, took=sequence * MS)
    writer.op(world_group(4), signature("all_reduce", 2**20), 101, at=200_000 * MS, state=State.RUNNING)
    (stats,) = _stats.op_stats([writer.record(taken=10**12)])
    assert (stats.kind, stats.group_size, stats.at_most) == ("all_reduce", 4, 4 * 2**20)
    assert (stats.count, stats.unfinished) == (100, 1)
    assert (stats.p50_ns, stats.p90_ns, stats.max_ns) == (45_900_000, 81_900_000, 90 * MS)
    assert stats.algorithm_bandwidth == pytest.approx(4 * 2**20 / 0.0459)
    assert stats.bus_bandwidth == pytest.approx(1.5 * stats.algorithm_bandwidth)


def test_who_comes_last_and_by_how_much() -> None:
    found = _stats.stragglers(healthy(size=4, ops=12))
    worst = found[0]
    assert (worst.rank, worst.last, worst.compared) == (1, 12, 12)
    assert worst.median_late_ns == pytest.approx(1.975 * MS)


def test_a_clock_that_is_off_makes_no_straggler() -> None:
    records = healthy(size=4, ops=12, hosts=("a", "b"), clocks_ns=(0, 3_000 * MS))
    alignment = align(records)
    assert alignment.offsets_ns.tolist() == [0, 0, -3_000 * MS, -3_000 * MS]
    assert "moved" in alignment.said
    assert _stats.stragglers(records)[0].rank == 1


def test_clocks_that_agree_are_left_alone() -> None:
    records = healthy(size=4, ops=12, hosts=("a", "b"), clocks_ns=(0, MS // 2))
    assert not align(records).offsets_ns.any()


def test_a_host_without_common_collectives_is_named() -> None:
    lonely = Rank(rank=1, world_size=2, host="b")
    lonely.op(world_group(2), signature("send", peer=0), 1, at=0)
    assert "too few" in align([healthy(size=1)[0], lonely.record(taken=MS)]).said


def test_collectives_with_a_rank_missing_are_not_compared() -> None:
    found = {(item.group, item.compared) for item in _stats.stragglers(missing_rank())}
    assert ("tp2", 5) in found
    assert ("tp0", 6) in found


@pytest.mark.parametrize("records", [[], missing_rank(), healthy()])
def test_text_and_json_hold_the_same_operations(records: list[Record]) -> None:
    ops, late = _stats.op_stats(records), _stats.stragglers(records)
    text = _stats.text(ops, late, align(records).said)
    read = json.loads(_stats.as_json(ops, late, "said"))
    assert len(read["operations"]) == len(ops)
    for op in ops:
        assert op.kind in text


def test_an_empty_record_has_no_figures() -> None:
    empty = Rank(rank=0, world_size=1).record(taken=0)
    assert not len(np.asarray(empty.entries))
    assert _stats.op_stats([empty]) == []
