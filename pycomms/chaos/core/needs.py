"""What a plan needs of the job that it is for, and what a job turned out not to have. Pure."""

from __future__ import annotations

from enum import Enum

from pycomms.chaos.core.log import Log
from pycomms.chaos.core.plan import Plan


class Need(Enum):
    SESSION = "a session of pycomms.ft"
    COORDINATOR = "a coordinator"
    STORE = "a store at MASTER_PORT"
    EMULATOR = "the emulated CUDA"


def needs_of(plan: Plan) -> frozenset[Need]:
    """Of a plan without any, everything happens to any job that has steps and calls torch.distributed."""
    found = set()
    for fault in plan.faults:
        if fault.at.point is not None:
            found.add(Need.SESSION)
        if fault.process == "coordinator":
            found.add(Need.COORDINATOR)
        if fault.settings.get("store"):
            found.add(Need.STORE)
        if fault.of.on_emulator:
            found.add(Need.EMULATOR)
    return frozenset(found)


def lacking(log: Log) -> frozenset[Need]:
    """What the run has shown that its job does not have."""
    found = set()
    has_trained = bool(log.of("step") or log.commits)
    if has_trained:
        found.add(Need.STORE if log.is_session else Need.SESSION)
    for fault in (log.plan.faults[one["fault"]] for one in log.of("not-injected")):
        if fault.process == "coordinator":
            found.add(Need.COORDINATOR)
        if fault.settings.get("store"):
            found.add(Need.STORE)
        if fault.of.on_emulator:
            found.add(Need.EMULATOR)
    return frozenset(found)
