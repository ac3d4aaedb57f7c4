"""Training that goes on when members of the job die or come.

Names are looked up when they are first used: the agent and the coordinator of a job, also here, need no torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pycomms.ft._recovery import Recovery
    from pycomms.ft.agreement import Agreement
    from pycomms.ft.checkpoints import Checkpoints
    from pycomms.ft.core.timeouts import Timeouts
    from pycomms.ft.ddp import DistributedDataParallel
    from pycomms.ft.errors import (
        AllDone,
        CoordinatorLost,
        DeviceLost,
        JobEnded,
        NothingToRestoreFrom,
        SessionError,
        StateMismatch,
    )
    from pycomms.ft.outer import DiLoCo, LocalSGD
    from pycomms.ft.replica import Replica
    from pycomms.ft.sampler import ElasticSampler, Taken
    from pycomms.ft.session import Session
    from pycomms.ft.step import Step

_HOMES = {
    "Agreement": "agreement",
    "AllDone": "errors",
    "Checkpoints": "checkpoints",
    "CoordinatorLost": "errors",
    "DeviceLost": "errors",
    "DiLoCo": "outer",
    "DistributedDataParallel": "ddp",
    "ElasticSampler": "sampler",
    "JobEnded": "errors",
    "LocalSGD": "outer",
    "NothingToRestoreFrom": "errors",
    "Recovery": "_recovery",
    "Replica": "replica",
    "Session": "session",
    "SessionError": "errors",
    "StateMismatch": "errors",
    "Step": "step",
    "Taken": "sampler",
    "Timeouts": "core.timeouts",
}

__all__ = [
    "Agreement",
    "AllDone",
    "Checkpoints",
    "CoordinatorLost",
    "DeviceLost",
    "DiLoCo",
    "DistributedDataParallel",
    "ElasticSampler",
    "JobEnded",
    "LocalSGD",
    "NothingToRestoreFrom",
    "Recovery",
    "Replica",
    "Session",
    "SessionError",
    "StateMismatch",
    "Step",
    "Taken",
    "Timeouts",
]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
