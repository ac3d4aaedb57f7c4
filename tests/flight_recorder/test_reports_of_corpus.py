"""Every report of every job of the corpus: none of them stumbles, and an export keeps what its format can hold."""

from __future__ import annotations

from pathlib import Path

import pytest

from pycomms.flight_recorder import _bundle, _convert, _html, _live, _load, _perfetto, _stats
from pycomms.flight_recorder._export import file_name
from pycomms.flight_recorder.analysis import analyze

from .test_html import Elements
from .whole_corpus import CASES, Case

NOW = 2_000_000_000_000_000_000

NOT_IN_TORCHS_FORMAT = {
    "uneven_all_gather_with_one_wrong_input": "the sizes of each rank's part",
    "process_died": "that a process is not alive",
    "process_died_inside_an_operation": "that a process is not alive",
    "rejected_on_one_rank": "operations that were refused",
    "one_rank_slow_all_the_time": "when an operation really ended",
    "truncated_victims_10": "that a record was cut off",
    "truncated_victims_50": "that a record was cut off",
    "truncated_victims_90": "that a record was cut off",
    "regrouped_after_a_failure": "generations",
}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_report_can_be_made(case: Case, tmp_path: Path) -> None:
    records = case.make()
    analysis = analyze(records)
    Elements(_html.page(records, analysis))
    _perfetto.write(tmp_path / "trace.json", records, analysis)
    assert _stats.text(_stats.op_stats(records), _stats.stragglers(records), "as recorded")
    assert len(_live.table(_live.look(records, NOW)).splitlines()) == len(records) + 1
    _bundle.write(tmp_path / "job", records)
    again = analyze([*_bundle.read(tmp_path / "job")])
    assert again == analysis


KEPT = [case for case in CASES if case.name not in NOT_IN_TORCHS_FORMAT]


@pytest.mark.parametrize("case", KEPT, ids=lambda case: case.name)
def test_an_export_for_torch_keeps_the_verdict(case: Case, tmp_path: Path) -> None:
    records = case.make()
    for number, record in enumerate(records):
        with (tmp_path / file_name(record, number)).open("wb") as file:
            _convert.torch_pickle(record, file)
    loaded = _load.load(sorted(tmp_path.iterdir()))
    before, after = analyze(records), analyze(loaded.records)
    assert (after.verdict, after.root_ranks) == (before.verdict, before.root_ranks)
