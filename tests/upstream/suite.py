"""The distributed suite that ships inside torch, told to treat our backend as it treats a CPU backend that it knows.

The suite decides while it is imported which tests a backend gets, by the backend's name. Here it is imported under the
name of a known backend (the gate) and only then told which one to run on, so every test that gloo gets is given to
ours. What a test does and asserts is the suite's own code, untouched.

The suite starts a new interpreter for each rank of each test. Here a rank is forked from this process, which has
imported everything and computed nothing: still a process of its own, at 0.1 s where an import of torch costs 2.
"""

from __future__ import annotations

import importlib
import os
from typing import TYPE_CHECKING, Any

import torch.multiprocessing
from typing_extensions import Self

if TYPE_CHECKING:
    import unittest

_SUITE = "torch.testing._internal.distributed.distributed_test"


class BackendName(str):
    """A backend's name that the comparisons inside test bodies also take for the gate's name."""

    __slots__ = ("_gate",)
    _gate: str

    def __new__(cls, name: str, gate: str) -> Self:
        made = super().__new__(cls, name)
        made._gate = gate
        return made

    def __eq__(self, other: object) -> bool:
        return other == self._gate or str.__eq__(self, other) is True

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = str.__hash__


def load(backend: str, world: int, gate: str, timeout_s: int) -> type[unittest.TestCase]:
    """The suite's test class. Once per process: the suite reads its environment when it is imported."""
    os.environ.update(
        BACKEND=gate,
        WORLD_SIZE=str(world),
        INIT_METHOD="file://",  # replaced by a real file for every test, in _run below
        DISTRIBUTED_TESTS_DEFAULT_TIMEOUT=str(timeout_s),
        PYTORCH_PRINT_REPRO_ON_FAILURE="0",
    )
    if backend == "nccl2":
        importlib.import_module("pycomms")  # registers the backend
    suite: Any = importlib.import_module(_SUITE)
    suite.BACKEND = BackendName(backend, gate)
    for names in (suite.PROFILING_SUPPORTED_BACKENDS, suite.SEND_RECV_PROFILING_SUPPORTED_BACKENDS):
        if backend not in names:
            names.append(backend)

    # Bases that are only there when this runs are none for a type checker.
    class UpstreamTest(suite.TestDistBackend, suite.DistributedTest._DistTestBase):  # type: ignore[misc]
        def setUp(self) -> None:
            super().setUp()
            self._start_processes(torch.multiprocessing.get_context("fork").Process)

        @classmethod
        def _run(cls, *args: Any, **kwargs: Any) -> None:
            suite.INIT_METHOD = os.environ["INIT_METHOD"]
            super()._run(*args, **kwargs)

    return UpstreamTest
