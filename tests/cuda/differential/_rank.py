"""Plays a batch of trials on a rank, and tells the parent of each as soon as it has ended. Runs on a rank only."""

from __future__ import annotations

import gc
from typing import Any

import torch
import torch.distributed as dist

from tests.multirank._harness import context

from .._delays import DELAYS
from ._cases import Trial, WrongResult
from ._outcome import OURS, Outcome

# What a backend says of a call that it did not even begin: the group still works.
_REFUSED = ("nsupported", "not supported", "nvalid usage", "nvalid argument", "not implemented", "ata type must")


def play_batch(rank: int, world: int, trials: list[Trial], delays: str) -> None:
    from .._preload import emulator

    _begin(bound=trials[0].bound)
    for trial in trials:
        emulator.set_delays(DELAYS[delays])
        outcome, goes_on = _play(rank, world, trial)
        emulator.set_delays(DELAYS["none"])
        context().tell(outcome)
        if not goes_on:
            return
    if dist.is_initialized():
        dist.barrier()


def _begin(bound: bool) -> None:
    import pycomms

    if context().backend != OURS:
        pycomms.builtin_nccl2(context().backend)
    context().init(device_id=torch.device("cuda", 0) if bound else None)


def _play(rank: int, world: int, trial: Trial) -> tuple[Outcome, bool]:
    try:
        value: Any = trial.play(rank, world, *trial.args)
        torch.cuda.synchronize()
    except WrongResult as error:
        return Outcome(kind="wrong", text=str(error)), True
    except Exception as error:
        text = f"{type(error).__name__}: {error}"
        goes_on = isinstance(error, TypeError | ValueError | NotImplementedError) or any(r in text for r in _REFUSED)
        return Outcome(kind="raised", text=text), goes_on
    finally:
        gc.collect(0)
    return Outcome(kind="ok", text=repr(value)), True
