"""Runs a plan: starts every contestant's ranks, lets them take turns block by block, and collects the blocks.

Turns rotate from round to round, so that all contestants see the same weather and none always follows the same other.
A contestant that fails is restarted a few times, then reported and left out; it never ends the run. One thread.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pycomms.bench.blocks import Block, enough, make_blocks, slowest
from pycomms.bench.contestants import Contestant, Setting, Unavailable
from pycomms.bench.group import GroupError, RankGroup
from pycomms.bench.placement import Probe, classify
from pycomms.bench.plan import CALIBRATION, PER_CALL, Case, Effort, Timing, memory_needed, shape_block
from pycomms.bench.protocol import RELEASE, Command, Hub, Reply

PREPARE_TIMEOUT_S = 120.0
RUN_TIMEOUT_S = 60.0
RESTARTS = 2
LEAST_ROUNDS = 3  # whatever they take
MEMORY_SHARE = 0.6  # of what is available, for the buffers of all contestants together

Say = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class Note:
    """Something that a reader of the results must know: a contestant left out, a case skipped."""

    contestant: str
    case: str  # label, "" for the whole run
    text: str
    is_failure: bool = False  # somebody could not start, failed, or was wrong


@dataclass(kw_only=True)
class Results:
    blocks: list[Block] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    versions: dict[str, str] = field(default_factory=dict)
    idle_cores: dict[str, float] = field(default_factory=dict)  # processor use of each contestant while it waits

    def to_json(self) -> dict[str, Any]:
        return {
            "versions": self.versions,
            "idle_cores": self.idle_cores,
            "notes": [asdict(note) for note in self.notes],
            "blocks": [block.to_json() for block in self.blocks],
        }


@dataclass(kw_only=True)
class _Runner:
    """A contestant in the world size that is being measured."""

    contestant: Contestant
    group: RankGroup | None = None
    failures: int = 0

    @property
    def name(self) -> str:
        return self.contestant.name


class Driver:
    def __init__(
        self,
        *,
        contestants: Sequence[Contestant],
        effort: Effort,
        probe: Probe | None,
        near_below: float,
        hub: Hub,
        folder: Path,
        say: Say,
    ) -> None:
        self._contestants = contestants
        self._effort = effort
        self._probe = probe
        self._near_below = near_below
        self._hub = hub
        self._folder = folder
        self._say = say
        self.results = Results()

    def run(self, setting: Setting, cases: Sequence[Case], until: float = math.inf) -> None:
        """All cases of one world size. until: of time.monotonic(). What is left of it is shared among the cases that
        are left, but each has its LEAST_ROUNDS. When this returns or raises, no rank runs."""
        runners = [_Runner(contestant=c) for c in self._contestants]
        runners = [r for r in runners if any(r.contestant.supports(c.op, c.ranks) for c in cases)]
        try:
            runners = [r for r in runners if self._start(r, setting)]
            if not runners:
                return
            self._measure_idle(runners, setting.where)
            for number, case in enumerate(cases, 1):
                self._say(f"[{number}/{len(cases)}] {case.label}")
                share = (until - time.monotonic()) / (len(cases) - number + 1)
                self._case(case, setting, runners, min(share, self._effort.case_s))
            for runner in runners:
                if runner.group is not None:
                    runner.group.close()
        except BaseException:  # an interrupt, too
            for runner in runners:
                if runner.group is not None:
                    runner.group.kill()
            raise

    def _note(self, contestant: str, case: str, text: str, *, is_failure: bool = False) -> None:
        self.results.notes.append(Note(contestant=contestant, case=case, text=text, is_failure=is_failure))
        self._say(f"    {contestant}: {text}")

    def _start(self, runner: _Runner, setting: Setting) -> bool:
        began = time.monotonic()
        where = setting.where
        log = self._folder / f"{runner.name}-{where.replace(' ', '-')}-{runner.failures}.log"
        try:
            launches = runner.contestant.launches(setting)
            runner.group = RankGroup(runner.name, setting.world, launches, self._hub, log)
        except (Unavailable, GroupError) as err:
            self._note(runner.name, where, f"left out: {err}", is_failure=True)
            return False
        self.results.versions[runner.name] = runner.group.version
        self._say(f"{runner.name}, {where}: ready in {time.monotonic() - began:.1f} s")
        return True

    def _measure_idle(self, runners: Sequence[_Runner], where: str) -> None:
        """Whether somebody disturbs the others by working while it should wait."""
        before = {r.name: r.group.cpu_seconds() for r in runners if r.group is not None}
        began = time.monotonic()
        time.sleep(0.5)
        spent = time.monotonic() - began
        for runner in runners:
            if runner.group is not None:
                share = (runner.group.cpu_seconds() - before[runner.name]) / spent
                self.results.idle_cores[f"{runner.name}, {where}"] = round(share, 3)
                if share > 0.05:
                    self._note(runner.name, "", f"uses {share:.2f} cores while it waits, at the others' cost")

    def _case(self, case: Case, setting: Setting, runners: Sequence[_Runner], seconds: float) -> None:
        deadline = time.monotonic() + seconds
        entered = [r for r in runners if r.contestant.supports(case.op, case.ranks)]
        needed = memory_needed(case) * case.ranks * len(entered)
        if needed > MEMORY_SHARE * available_memory():
            self._note("all", case.label, f"skipped: needs {needed >> 20} MiB")
            return
        timings: dict[str, Timing] = {}
        for runner in entered:
            timing = self._prepare(runner, case, setting)
            if timing is not None:
                timings[runner.name] = timing
        blocks: list[Block] = []
        try:
            self._rounds(case, [r for r in entered if r.name in timings], timings, deadline, blocks)
        finally:
            self.results.blocks.extend(blocks)  # of a case that is interrupted, too
        for runner in entered:
            if runner.group is not None:
                self._ask(runner, RELEASE, PREPARE_TIMEOUT_S, case)

    def _prepare(self, runner: _Runner, case: Case, setting: Setting) -> Timing | None:
        """The shape of the contestant's blocks, or None when it sits this case out."""
        if runner.group is None and (runner.failures > RESTARTS or not self._start(runner, setting)):
            return None
        replies = self._ask(runner, Command.prepare(case), PREPARE_TIMEOUT_S, case)
        if replies is None:
            return None
        return self._calibrate(runner, case)

    def _calibrate(self, runner: _Runner, case: Case) -> Timing | None:
        """Twice: the first few calls tell the scale, a short block then tells what a block will cost."""
        timing = CALIBRATION
        for block_ms in (self._effort.block_ms / 5, self._effort.block_ms):
            replies = self._ask(runner, Command.run(timing), RUN_TIMEOUT_S, case)
            if replies is None:
                return None
            timing = shape_block(cost_of(case, replies, timing), len(replies[0].series), block_ms)
        return timing

    def _rounds(
        self,
        case: Case,
        entered: Sequence[_Runner],
        timings: dict[str, Timing],
        deadline: float,
        blocks: list[Block],
    ) -> None:
        """blocks: to which it adds."""
        alive = list(entered)
        for turn in range(self._effort.max_rounds):
            alive = [r for r in alive if r.group is not None and r.name in timings]
            if not alive:
                break
            names = [r.name for r in alive]
            if turn >= self._effort.rounds and enough(blocks, names, self._effort.wanted_blocks):
                break
            if turn >= LEAST_ROUNDS and time.monotonic() > deadline:
                break
            before = self._measure_placement()
            first = turn % len(alive)
            for runner in alive[first:] + alive[:first]:
                replies = self._ask(runner, Command.run(timings[runner.name]), RUN_TIMEOUT_S, case)
                after = self._measure_placement()
                if replies is None:
                    timings.pop(runner.name)
                else:
                    placement = classify(before, after, self._near_below)
                    blocks += make_blocks(case, runner.name, turn, placement, (before, after), replies)
                before = after

    def _measure_placement(self) -> float | None:
        return None if self._probe is None else self._probe.measure()

    def _ask(self, runner: _Runner, command: Command, timeout_s: float, case: Case) -> list[Reply] | None:
        """All ranks' replies; None, and a note, when one of them has no result."""
        assert runner.group is not None
        try:
            replies = runner.group.ask(command, timeout_s)
        except GroupError as err:
            self._note(runner.name, case.label, f"failed: {err}", is_failure=True)
            runner.group.kill()
            runner.group = None
            runner.failures += 1
            return None
        for reply in replies:
            if reply.unsupported:
                self._note(runner.name, case.label, f"not measured: {reply.unsupported}")
                return None
        for rank, reply in enumerate(replies):
            if reply.error:
                self._note(runner.name, case.label, f"rank {rank}: {reply.error.strip()}", is_failure=True)
                return None
        return replies


def cost_of(case: Case, replies: Sequence[Reply], timing: Timing) -> float:
    """Microseconds that one call takes, the mean over the series; few samples are judged by the best of them."""
    judge = min if timing.samples < 10 else statistics.median
    per_operation = [judge(slowest([reply.series[name] for reply in replies])) for name in replies[0].series]
    return statistics.mean(per_operation) * PER_CALL.get(case.op, 1)


def available_memory() -> int:
    """Bytes that can be had without swapping."""
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) << 10
    return 1 << 62
