"""What the steps of `make test` print is read as numbers."""

from __future__ import annotations

from tests.matrix.counts import Count, counts

PRINTED = """\
== unit tests
.venv/bin/python -m pytest -q tests/unit
........................................................................ [100%]
1471 passed in 29.37s

== C++ tests: plain
100% tests passed, 0 tests failed out of 44

== C++ tests: asan
100% tests passed out of 44

== C++ tests: tsan
97% tests passed, 1 tests failed out of 37

== multirank tests
FAILED tests/multirank/test_x.py::test_y - AssertionError: 12 passed in 3s
8 failed, 899 passed, 3 skipped, 2 warnings in 287.12s (0:04:47)

== the emulated CUDA
1 passed, 2 errors in 1.00s
== torch's own suite, the part that touches every op
--- nccl2, 2 ranks, the tests of gloo
backend  ranks gate     passed    failed   skipped  excepted   seconds
nccl2        2 gloo         40         0         3         1        12
gloo         2 gloo         41         0         3         0        12
nccl2        3 mpi           5         1         0         0        12
== the documentation, to out/site
"""


def test_each_step_has_what_it_counted() -> None:
    assert counts(PRINTED.splitlines()) == {
        "unit tests": Count(1471),
        "C++ tests: plain": Count(44),
        "C++ tests: asan": Count(44),
        "C++ tests: tsan": Count(36, 1),
        "multirank tests": Count(899, 8, 3),
        "the emulated CUDA": Count(1, 2),
        "torch's own suite, the part that touches every op": Count(45, 1, 4),
    }
