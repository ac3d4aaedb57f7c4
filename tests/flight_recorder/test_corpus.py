"""The analyzer's score on the labelled corpus."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from pycomms.flight_recorder._load import load
from pycomms.flight_recorder._model import Record
from pycomms.flight_recorder.analysis import Analysis, Verdict, analyze
from tests.flight_recorder.dumps import write_json, write_pickles
from tests.flight_recorder.whole_corpus import CASES, Case

_ORDERS = 100

every_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


def shuffled(records: list[Record], seed: int) -> list[Record]:
    order = list(records)
    random.Random(seed).shuffle(order)
    return order


def check(case: Case, analysis: Analysis) -> None:
    assert analysis.verdict is case.verdict, _say(analysis)
    assert analysis.root_ranks == case.roots, _say(analysis)
    if not analysis.findings:
        return
    first = analysis.findings[0]
    if case.group is not None:
        assert first.group is not None
        assert first.group.label == case.group, _say(analysis)
    if case.sequence is not None:
        assert first.op is not None
        assert first.op.sequence == case.sequence, _say(analysis)


def _say(analysis: Analysis) -> str:
    return "\n".join(
        [*(f"{one.verdict} {one.root_ranks}: {one.what}" for one in analysis.findings), *analysis.warnings]
    )


@every_case
def test_finds_what_is_wrong(case: Case) -> None:
    analysis = analyze(case.make())
    check(case, analysis)
    assert analysis.degraded == case.degraded
    if case.line is not None:
        first = analysis.findings[0]
        assert case.line in {place.site.line for place in (*first.culprit_sites, *first.victim_sites)}


@every_case
def test_the_order_of_files_does_not_matter(case: Case) -> None:
    records = case.make()
    expected = analyze(records)
    for seed in range(_ORDERS):
        assert analyze(shuffled(records, seed)) == expected


@pytest.mark.parametrize("case", [case for case in CASES if case.roots and case.droppable], ids=lambda case: case.name)
def test_a_lost_record_of_a_victim_does_not_move_the_blame(case: Case) -> None:
    records = case.make()
    victims = [rank for rank in analyze(records).findings[0].victim_ranks if rank in {one.rank for one in records}]
    if len(victims) < 2:  # a lone victim is the only witness: lose somebody else's
        victims = [record.rank for record in records if record.rank not in (*case.roots, *victims)]
    lost = random.Random(case.name).choice(victims)
    after = analyze([record for record in records if record.rank != lost])
    assert (after.verdict, after.root_ranks) == (case.verdict, case.roots), f"without rank {lost}: {_say(after)}"


@pytest.mark.parametrize("case", [case for case in CASES if "pickle" in case.formats], ids=lambda case: case.name)
def test_finds_the_same_in_torch_pickles(case: Case, tmp_path: Path) -> None:
    records = case.make()
    loaded = load(write_pickles(records, tmp_path))
    assert len(loaded.records) == len(records)
    check(case, analyze(loaded.records))


@pytest.mark.parametrize("case", [case for case in CASES if "json" in case.formats], ids=lambda case: case.name)
def test_finds_the_same_in_json(case: Case, tmp_path: Path) -> None:
    records = case.make()
    check(case, analyze(load(write_json(records, tmp_path)).records))


def test_the_corpus_is_as_large_as_it_should_be() -> None:
    assert len(CASES) >= 60
    assert {case.verdict for case in CASES} == set(Verdict)
    assert len({case.name for case in CASES}) == len(CASES)
