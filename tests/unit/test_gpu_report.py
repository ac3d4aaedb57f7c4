"""What `python -m tests.gpu` makes of what it found; the number of ranks that it chooses."""

from __future__ import annotations

import pytest

from tests.gpu._report import AreaReport, ExitCode, Report
from tests.gpu._worlds import worlds


def test_the_exit_code_is_that_of_the_worst_area() -> None:
    fine = AreaReport(name="a", passed=3, skipped=["no second GPU"])
    late = AreaReport(name="b", passed=1, out_of_time=["the rest"])
    bad = AreaReport(name="c", failed=["all_reduce: wrong"])
    assert Report(areas=[fine]).exit_code() is ExitCode.PASSED
    assert Report(areas=[fine, late]).exit_code() is ExitCode.OUT_OF_TIME
    assert Report(areas=[bad, late, fine]).exit_code() is ExitCode.FAILED


def test_the_table_has_the_reasons_and_the_json_all_failures() -> None:
    figure = {"what": "all_reduce", "bytes": 8, "ours_us": 5.0, "theirs_us": {"nccl": 10.0}, "gb_per_s": 1.0}
    area = AreaReport(name="speed", failed=[f"case {n}" for n in range(9)], skipped=["why", "why"], figures=[figure])
    report = Report(machine={"torch": "2.11.0"}, areas=[area])
    text = report.text()
    assert "9 failed" in text
    assert "and 3 more" in text
    assert "2 x why" in text
    assert "nccl 0.50" in text
    found = report.to_json()
    assert found["machine"] == {"torch": "2.11.0"}
    assert found["areas"][0]["failed"] == 9
    assert len(found["areas"][0]["failures"]) == 9


@pytest.mark.parametrize(
    "gpus, nccl, expected",
    [
        (1, (2, 29, 3), (1,)),
        (1, (2, 30, 0), (1, 2)),
        (1, (3, 0, 0), (1, 2)),
        (2, (2, 27, 5), (1, 2)),
        (16, (2, 30, 7), (1, 8)),
        (4, (), (1,)),
    ],
)
def test_numbers_of_ranks(gpus: int, nccl: tuple[int, ...], expected: tuple[int, ...]) -> None:
    counts, why = worlds(gpus, nccl)
    assert counts == expected
    assert why
