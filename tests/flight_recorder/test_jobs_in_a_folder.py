"""A folder with several jobs, and one with few records of a job."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pycomms.flight_recorder._jobs import one_job
from pycomms.flight_recorder._model import Record
from pycomms.flight_recorder._report import headline, to_text
from pycomms.flight_recorder.analysis import Verdict, analyze

from . import corpus_disagreeing
from ._jobs import healthy, missing_rank

HOUR_NS = 3600 * 10**9


def of(job: str, records: Sequence[Record], *, later: int = 0, alive: bool = False) -> list[Record]:
    return [replace(one, job=job, taken_ns=one.taken_ns + later, alive=alive) for one in records]


def test_the_last_job_that_lives_is_judged() -> None:
    hung = of("hung", missing_rank(), alive=True)
    gone, older = of("gone", healthy(), later=HOUR_NS), of("older", healthy(), later=-HOUR_NS, alive=True)
    assert one_job([*gone, *hung, *older]) == (hung, ("gone", "older"))
    assert one_job([*older, *gone])[1] == ("gone",)


def test_where_nobody_lives_it_is_the_last() -> None:
    first, second = of("first", healthy()), of("second", healthy(), later=HOUR_NS)
    assert one_job([*second, *first]) == (second, ("first",))


def test_hosts_that_name_a_job_differently_are_one_job() -> None:
    records = missing_rank()
    both = [*of("parent1", records[:4]), *of("parent2", records[4:])]
    assert one_job(both) == (both, ())


def test_the_record_of_one_rank_accuses_nobody() -> None:
    """Of a record that one process has written at somebody's word."""
    (alone,) = [one for one in missing_rank() if one.rank == 0]
    found = analyze([alone])
    assert found.verdict is Verdict.INSUFFICIENT_DATA
    assert found.root_ranks == ()


def test_the_headline_names_what_the_culprit_called() -> None:
    found = analyze(corpus_disagreeing.one_rank_issues_another_op())
    (finding,) = found.findings
    assert "; last op of 4: seq 11 all_gather_single at " in headline(finding)
    assert "waits for nobody: all have come, and they disagree" in to_text(found, explain=True)
