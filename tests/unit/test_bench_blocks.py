"""What the benchmark concludes from its blocks: placement, dropping, pooling, ratios."""

from __future__ import annotations

import json

import pytest

from pycomms.bench.blocks import Block, Tally, column, enough, figure, make_blocks, quartiles, slowest, summarize
from pycomms.bench.placement import Placement, classify
from pycomms.bench.plan import Case, Op
from pycomms.bench.protocol import Reply

CASE = Case(op=Op.ALL_REDUCE, size=1024, ranks=2)


def block(
    contestant: str = "gloo",
    *,
    series: str = "",
    turn: int = 0,
    placement: Placement = Placement.NEAR,
    median: float = 10.0,
    least: float | None = None,
) -> Block:
    return Block(
        case=CASE,
        contestant=contestant,
        series=series,
        round=turn,
        placement=placement,
        probe_ns=(55.0, 56.0),
        samples=5,
        median_us=median,
        min_us=median if least is None else least,
        queued=0.0,
    )


@pytest.mark.parametrize(
    "before, after, expected",
    [
        (55.0, 60.0, Placement.NEAR),
        (240.0, 250.0, Placement.FAR),
        (55.0, 250.0, Placement.MIXED),
        (250.0, 55.0, Placement.MIXED),
        (115.0, 125.0, Placement.MIXED),  # on both sides of the border
        (130.0, 400.0, Placement.MIXED),  # both far, but not the same
        (None, 55.0, Placement.UNKNOWN),
        (55.0, None, Placement.UNKNOWN),
    ],
)
def test_a_block_has_a_placement_only_when_its_probes_agree(
    before: float | None, after: float | None, expected: Placement
) -> None:
    assert classify(before, after, near_below=120.0) is expected


def test_the_slowest_rank_tells_when_an_operation_ended() -> None:
    assert slowest([[1.0, 5.0, 2.0], [3.0, 4.0, 2.5]]) == [3.0, 5.0, 2.5]


def test_ranks_must_report_the_same_number_of_samples() -> None:
    with pytest.raises(ValueError, match="shorter"):
        slowest([[1.0, 2.0], [1.0]])


def test_a_turn_becomes_one_block_per_series() -> None:
    replies = [
        Reply(series={"staged/a": [1.0, 2.0, 9.0], "direct/b": [4.0, 4.0, 4.0]}, wall_ns=100, queued_ns=10),
        Reply(series={"staged/a": [3.0, 1.0, 1.0], "direct/b": [5.0, 3.0, 3.0]}, wall_ns=100, queued_ns=25),
    ]
    made = make_blocks(CASE, "limits", 7, Placement.NEAR, (55.0, 55.0), replies)
    assert [(b.series, b.median_us, b.min_us) for b in made] == [("staged/a", 3.0, 2.0), ("direct/b", 4.0, 4.0)]
    assert {(b.contestant, b.round, b.samples, b.queued) for b in made} == {("limits", 7, 3, 0.25)}


def test_a_figure_weighs_every_block_alike_and_keeps_the_least_sample() -> None:
    found = figure([block(median=m, least=m / 2) for m in (10.0, 30.0, 20.0, 1000.0)])
    assert (found.median_us, found.min_us, found.blocks) == (25.0, 5.0, 4)
    assert (found.low_us, found.high_us) == (17.5, 272.5)


def test_quartiles_of_one_value_are_that_value() -> None:
    assert quartiles([3.0]) == (3.0, 3.0)


def test_near_and_far_are_never_pooled_and_mixed_is_left_out() -> None:
    table = summarize(
        [
            block(median=10.0),
            block(turn=1, placement=Placement.FAR, median=40.0),
            block(turn=2, placement=Placement.MIXED, median=1e6),
        ]
    )
    assert {placement: row["gloo"].median_us for (_, placement), row in table.items()} == {
        Placement.NEAR: 10.0,
        Placement.FAR: 40.0,
    }


def test_the_best_variant_of_a_limit_is_chosen_for_each_placement() -> None:
    table = summarize(
        [
            block("limits", series="staged/cached", median=10.0),
            block("limits", series="staged/streaming", median=15.0),
            block("limits", series="direct/cached", median=5.0),
            block("limits", series="staged/cached", turn=1, placement=Placement.FAR, median=90.0),
            block("limits", series="staged/streaming", turn=1, placement=Placement.FAR, median=60.0),
        ]
    )
    near, far = table[CASE, Placement.NEAR], table[CASE, Placement.FAR]
    assert near["limits: staged"].variant == "staged/cached"
    assert near["limits: direct"].median_us == 5.0
    assert far["limits: staged"].variant == "staged/streaming"


def test_a_contestant_without_variants_is_its_own_column() -> None:
    assert column(block("nccl2")) == "nccl2"
    assert column(block("limits", series="private, alone")) == "limits: private, alone"


def test_the_tally_counts_turns_and_not_series() -> None:
    blocks = [
        block("limits", series="staged/a"),
        block("limits", series="staged/b"),
        block("gloo", placement=Placement.MIXED),
        block("gloo", turn=1, placement=Placement.FAR),
    ]
    assert Tally.of(blocks) == Tally(near=1, far=1, mixed=1)


def test_enough_means_one_placement_that_everybody_has_seen_often() -> None:
    both_near = [block(name, turn=turn) for name in ("gloo", "nccl2") for turn in range(3)]
    assert enough(both_near, ["gloo", "nccl2"], wanted=3)
    assert not enough(both_near, ["gloo", "nccl2"], wanted=4)
    assert not enough(both_near, ["gloo", "nccl2", "impi"], wanted=1)
    apart = [block("gloo", turn=t) for t in range(3)]
    apart += [block("nccl2", turn=t, placement=Placement.FAR) for t in range(3)]
    assert not enough(apart, ["gloo", "nccl2"], wanted=1)
    dropped = [block(name, turn=t, placement=Placement.MIXED) for name in ("gloo", "nccl2") for t in range(9)]
    assert not enough(dropped, ["gloo", "nccl2"], wanted=1)


def test_a_block_survives_the_file() -> None:
    original = block("limits", series="staged/a", placement=Placement.FAR)
    assert Block.from_json(json.loads(json.dumps(original.to_json()))) == original
