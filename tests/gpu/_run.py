"""One run: looks at the machine, builds, and gives each area its time. The process that does it never touches CUDA."""

from __future__ import annotations

import os
import subprocess
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass

from tests.multirank._harness import Pool, Ranks

from . import _areas, _build
from ._conformance import conformance
from ._contract import contract
from ._machine import look
from ._report import AreaReport, ExitCode, Report
from ._setting import Area, Deadline, Setting
from ._speed import speed
from ._worlds import worlds

TOTAL_S = 300.0
_BUILD_S = 150.0
_END_S = 12.0  # of the whole, for what is in flight when the time is over
_LEAST_S = 2.0  # an area that has less is not begun


@dataclass(frozen=True)
class _Plan:
    run: Area
    seconds: float  # at most
    needs_extension: bool = True


AREAS = {
    "contract": _Plan(contract, 60.0),
    "blocks": _Plan(_areas.blocks, 30.0),
    "groups": _Plan(_areas.groups, 30.0),
    "capture": _Plan(_areas.capture, 30.0),
    "faults": _Plan(_areas.faults, 40.0),
    "windows": _Plan(_areas.windows, 10.0),
    "speed": _Plan(speed, 45.0),
    "conformance": _Plan(conformance, 100.0, needs_extension=False),
}


@dataclass(frozen=True, kw_only=True)
class Options:
    areas: Sequence[str] = tuple(AREAS)
    emulated: bool = False
    devices: int = 2  # that are emulated
    quick: bool = False
    build: bool = True


def run(options: Options, report: Report) -> ExitCode:
    """Fills the report as it goes."""
    if options.emulated:
        _prepare_emulator(options.devices)
    # Set before the fork server starts, from which all ranks come. The first one is for two ranks on one GPU.
    os.environ["NCCL_MULTI_RANK_GPU_ENABLE"] = "1"
    os.environ["PYTHONWARNINGS"] = "ignore::FutureWarning"  # old names of torch's operations, which old torches need
    deadline = Deadline(TOTAL_S - _END_S)
    pool = Pool(preload=["tests.cuda._preload"] if options.emulated else [])
    try:
        ranks = Ranks(pool, "nccl2")
        machine = ranks.run(look, world=1, init=False)[0]
        report.machine = {**machine.to_json(), "emulated": options.emulated, "checkout": _checkout()}
        if not machine.gpus:
            return ExitCode.NO_GPU
        print(machine.describe(), flush=True)
        counts, why = worlds(len(machine.gpus), machine.nccl)
        report.machine |= {"worlds": counts, "why_worlds": why}
        print(f"{' and '.join(map(str, counts))} ranks: {why}", flush=True)
        broken = _build_extension(options, report, deadline)
        setting = Setting(ranks=ranks, worlds=counts, why_worlds=why, emulated=options.emulated, quick=options.quick)
        for name in options.areas:
            _run_area(name, setting, report, deadline, broken)
    finally:
        pool.close()
    return ExitCode.CANNOT_BUILD if broken else report.exit_code()


def _prepare_emulator(devices: int) -> None:
    """Built before the time runs: that takes two minutes the first time."""
    from tests.cuda_emulator import _build as emulator
    from tests.cuda_emulator import nccl

    if not emulator.fits_torch():
        raise _build.CannotBuild("the emulator stands in for CUDA 13, and this torch is built for another or for none")
    print("the emulated CUDA: building what has changed", flush=True)
    emulator.library_folder()
    nccl.library()
    os.environ["CUEMU_DEVICES"] = str(devices)


def _checkout() -> str:
    """The commit, and whether files differ from it; empty where git does not say."""
    command = ["git", "describe", "--always", "--dirty", "--abbrev=12"]
    try:
        done = subprocess.run(command, cwd=_build.ROOT, capture_output=True, text=True, timeout=10, check=False)
    except (FileNotFoundError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip()


def _build_extension(options: Options, report: Report, deadline: Deadline) -> bool:
    """Whether there is none."""
    area = AreaReport(name="build")
    report.areas.append(area)
    begun = time.monotonic()
    if not options.build:
        area.skipped.append("--no-build")
    elif _build.is_built():
        area.skipped.append("it is built")
    else:
        try:
            _build.build(deadline.sooner(_BUILD_S).left())
            area.passed = 1
        except _build.CannotBuild as error:
            area.failed.append(str(error))
    area.seconds = time.monotonic() - begun
    return bool(area.failed)


def _run_area(name: str, setting: Setting, report: Report, whole: Deadline, broken: bool) -> None:
    plan = AREAS[name]
    area = AreaReport(name=name)
    report.areas.append(area)
    deadline = whole.sooner(plan.seconds)
    if broken and plan.needs_extension:
        area.skipped.append("the extension was not built")
        return
    if deadline.left() < _LEAST_S:
        area.out_of_time.append("all")
        return
    print(f"{name} ...", flush=True)
    begun = time.monotonic()
    try:
        plan.run(setting, area, deadline)
    except Exception:  # whatever it is, the other areas are still worth their time
        area.failed.append(traceback.format_exc())
    finally:
        area.seconds = time.monotonic() - begun
    print(f"    {area.passed} passed, {len(area.failed)} failed, {area.seconds:.1f} s", flush=True)
