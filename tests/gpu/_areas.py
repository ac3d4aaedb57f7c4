"""The areas that are lists of checks. Most of these are those of tests/cuda, which run on any CUDA."""

from __future__ import annotations

from tests.cuda import test_capture, test_coalescing, test_groups, test_training

from . import _faults, _windows
from ._checks import Check, run_checks
from ._report import AreaReport
from ._setting import Deadline, Setting

_NO_DELAYS = "none"  # the emulator's are not to be had on a real GPU


def blocks(setting: Setting, report: AreaReport, deadline: Deadline) -> None:
    checks = [Check(run=test_coalescing.coalesced_calls, at_least=1)]
    for is_async in (False, True):
        everything = Check(run=test_coalescing.everything_in_a_block, args=(is_async, _NO_DELAYS), tells_failures=True)
        checks += [everything, Check(run=test_coalescing.mixed, args=(is_async,))]
    checks += [
        Check(run=test_coalescing.batch, args=(_NO_DELAYS,)),
        Check(run=test_coalescing.on_two_streams),
        Check(run=test_coalescing.refused_in_a_block),
        Check(run=test_coalescing.leave_by_exception, args=("same group",)),
    ]
    run_checks(setting, report, deadline, checks)


def groups(setting: Setting, report: AreaReport, deadline: Deadline) -> None:
    checks = [
        Check(run=test_groups.new_and_split, bound=True),
        Check(run=test_groups.high_priority, at_least=1),
        Check(run=test_groups.futures),
        Check(run=test_groups.objects),
        Check(run=test_groups.refuse_what_nccl_cannot),
        Check(run=test_training.use_functional),
        Check(run=test_training.train_as_one_process, args=("ddp", _NO_DELAYS), at_least=1),
        Check(run=test_training.train_as_one_process, args=("fsdp2", _NO_DELAYS), at_least=1),
    ]
    run_checks(setting, report, deadline, checks)


def capture(setting: Setting, report: AreaReport, deadline: Deadline) -> None:
    checks = [
        Check(run=test_capture.first_operation_is_captured, at_least=1),
        Check(run=test_capture.capture_several, args=(_NO_DELAYS,)),
        Check(run=test_capture.forget_in_capture, args=(_NO_DELAYS,), at_least=1),
        Check(run=test_capture.capture_block, args=(False,)),
        Check(run=test_capture.capture_block, args=(True,)),
        Check(run=test_capture.capture_beside, at_least=1),
        Check(run=test_capture.capture_each, args=(_NO_DELAYS, not setting.quick), tells_failures=True),
    ]
    run_checks(setting, report, deadline, checks)


def faults(setting: Setting, report: AreaReport, deadline: Deadline) -> None:
    checks = [
        Check(run=_faults.abort_of_an_idle_group, at_least=1),
        Check(run=_faults.abort_from_another_thread),
        Check(run=_faults.a_deadline_passes, group_timeout=_faults.DEADLINE_S),
        Check(run=_faults.a_rank_is_killed, kills_last=True),
    ]
    run_checks(setting, report, deadline, checks)


def windows(setting: Setting, report: AreaReport, deadline: Deadline) -> None:
    run_checks(setting, report, deadline, [Check(run=_windows.put_round_the_ring)])
