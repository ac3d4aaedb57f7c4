"""The loop of a Python rank: prepare a case, time blocks of it, wait idle in between.

Single-threaded. Must not know which library is measured, nor import anything beyond the standard library.
"""

from __future__ import annotations

import gc
import json
import os
import time
import traceback
from itertools import repeat
from pathlib import Path
from typing import Any

from pycomms.bench.plan import PER_CALL, Timing
from pycomms.bench.protocol import Command, Link, LinkError, Reply
from pycomms.bench.ranks.operations import OPERATIONS, Call, Operation, Table, Unsupported


def pin(cores: str, rank: int) -> None:
    """Pins this process (and the threads that it starts later) to its core of a list such as "0,1"; "" pins nothing."""
    if cores:
        os.sched_setaffinity(0, {int(cores.split(",")[rank])})


def queued_ns() -> int:
    """How long the threads of this process have been runnable but not running, in all."""
    total = 0
    for task in Path("/proc/self/task").iterdir():
        try:
            total += int((task / "schedstat").read_text().split()[1])
        except OSError:  # the thread has just ended, or the kernel keeps no such count
            continue
    return total


def measure(call: Call, before: Call | None, timing: Timing, per_call: int) -> list[float]:
    """Microseconds per operation, one figure a sample."""
    clock = time.perf_counter_ns
    scale = 1.0 / (1000.0 * timing.inner * per_call)
    samples: list[float] = []
    gc.collect()
    gc.disable()
    try:
        for _ in range(timing.warmup):
            if before is not None:
                before()
            call()
        if before is None:
            for _ in range(timing.samples):
                start = clock()
                for _ in repeat(None, timing.inner):
                    call()
                samples.append((clock() - start) * scale)
        else:
            for _ in range(timing.samples):
                spent = 0
                for _ in repeat(None, timing.inner):
                    before()
                    start = clock()
                    call()
                    spent += clock() - start
                samples.append(spent * scale)
    finally:
        gc.enable()
    return samples


class Rank:
    """Answers commands one at a time; holds at most one prepared operation."""

    def __init__(self, endpoint: Any, table: Table = OPERATIONS, *, verify: bool = True) -> None:
        """endpoint: whatever the operations of the table ask of it."""
        self._endpoint = endpoint
        self._table = table
        self._verify = verify
        self._operation: Operation | None = None
        self._per_call = 1

    def answer(self, command: Command) -> Reply:
        if command.verb == "prepare":
            return self._prepare(command)
        if command.verb == "run":
            return self._run(command.timing)
        self._drop()
        return Reply()

    def _drop(self) -> None:
        operation, self._operation = self._operation, None
        if operation is not None:
            operation.close()

    def _prepare(self, command: Command) -> Reply:
        self._drop()
        try:
            operation = self._table[command.op](self._endpoint, command.size)
            right = operation.verify() or not self._verify
        except Unsupported as err:
            return Reply(unsupported=str(err))
        except Exception:  # whatever the library under test throws is a result to report
            return Reply(error=traceback.format_exc(limit=-3))
        if not right:
            return Reply(error="wrong result")
        self._operation = operation
        self._per_call = PER_CALL.get(command.op, 1)
        return Reply()

    def _run(self, timing: Timing) -> Reply:
        if self._operation is None:
            return Reply(error="nothing is prepared")
        operation = self._operation
        calls = {"": operation.call, **operation.beside}
        start, queued = time.perf_counter_ns(), queued_ns()
        try:
            if operation.is_passive:
                operation.after()
                return Reply(series={name: [0.0] * timing.samples for name in calls})
            series = {name: measure(call, operation.before, timing, self._per_call) for name, call in calls.items()}
            wall_ns, waited_ns = time.perf_counter_ns() - start, queued_ns() - queued
            operation.after()
        except Exception:  # as above
            return Reply(error=traceback.format_exc(limit=-3))
        rounded = {name: [round(us, 4) for us in samples] for name, samples in series.items()}
        return Reply(series=rounded, wall_ns=wall_ns, queued_ns=waited_ns)


def serve(link: Link, rank: Rank) -> None:
    """Until the driver says quit or goes away."""
    while True:
        try:
            command = Command.parse(link.receive(None))
        except LinkError:
            return
        if command.verb == "quit":
            return
        link.send(json.dumps(vars(rank.answer(command))))
