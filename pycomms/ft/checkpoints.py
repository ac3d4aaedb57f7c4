"""Checkpoints of a training, for when nobody is left who could give the state to the others."""

from __future__ import annotations

import contextlib
import io
import os
import re
import shutil
import threading
import warnings
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotDone
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.checkpoint import state_dict_loader, state_dict_saver
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.filesystem import FileSystemReader
from torch.distributed.checkpoint.metadata import TensorStorageMetadata
from torch.distributed.checkpoint.state_dict import (
    get_model_state_dict,
    get_optimizer_state_dict,
    set_model_state_dict,
    set_optimizer_state_dict,
)
from torch.optim import Optimizer

from pycomms.ft._arguments import expect_int
from pycomms.ft._checkpoint_parts import METADATA, Part, put_together
from pycomms.ft._state import Stateful
from pycomms.ft.errors import StateMismatch

_COMPLETE = re.compile(r"step-(\d+)")
_SERIALIZED = "serialized"


class Checkpoints:
    """Where a :class:`pycomms.ft.Session` writes a checkpoint every so many steps, to begin from if all start anew.

    One member writes, in a thread of its own, from a copy that it makes behind the step; the others are not held up. Of
    a sharded model the members of one replica write, each its shard. A folder ``step-N`` is a whole checkpoint in the
    format of ``torch.distributed.checkpoint``: the model and the optimizer by the names of the parameters, as
    ``get_state_dict()`` gives them, and all else serialized. One that was not written to its end, or lacks a shard, has
    another name, and does not count.

    A checkpoint can be loaded with another number of shards than it was written with.

    Args:
        folder: that all members can read, and write; made where it is not.
        every: committed steps from one checkpoint to the next.
        keep: how many are kept, the newest.

    Raises:
        ValueError: every or keep is less than 1.
        TypeError: one of them is no int, or folder no path.
    """

    def __init__(self, folder: str | os.PathLike[str], *, every: int, keep: int = 2) -> None:
        if not isinstance(folder, (str, os.PathLike)):
            raise TypeError(f"Checkpoints: folder is {folder!r}, expected a path")
        expect_int("Checkpoints", "every", every, 1)
        expect_int("Checkpoints", "keep", keep, 1)
        self.folder = Path(folder)
        self.every = every
        self.keep = keep
        self._writing: tuple[int, Future[None]] | None = None

    def newest(self) -> int | None:
        """The step of the newest whole checkpoint."""
        return max(self._steps(), default=None)

    def path(self, step: int) -> Path:
        return self.folder / f"step-{step}"

    def save(self, step: int, parts: Mapping[str, Stateful], part: Part | None = None) -> None:
        """Copies the state, and begins to write it. Warns, and leaves this one out, while the last is being written.

        With a ``part`` it writes that, and the checkpoint is whole once all of its parts are.

        What keeps a checkpoint from being written (a full disk) is a warning too, at the next one or at the end: the
        training goes on.
        """
        if self._writing is not None and not self._writing[1].done():
            warnings.warn(
                f"no checkpoint of step {step}: that of step {self._writing[0]} is still being written", stacklevel=2
            )
            return
        self.wait(timedelta(0))
        part = part or Part()
        state = _copied(part.of_state(_state_of(parts)))
        written: Future[None] = Future()
        self._writing = (step, written)
        # A disk that hangs must not keep the process from ending, as a pool's thread would.
        threading.Thread(
            target=self._write_and_tell, args=(step, state, part, written), name="pycomms-ft-checkpoint", daemon=True
        ).start()

    def wait(self, timeout: timedelta) -> None:
        """Until what is being written is written, or warns that it is not."""
        if self._writing is None:
            return
        step, writing = self._writing
        try:
            writing.result(timeout.total_seconds())
        except NotDone:
            warnings.warn(f"the checkpoint of step {step} is still being written after {timeout}", stacklevel=2)
            return
        except (Exception, CheckpointException) as err:
            warnings.warn(f"no checkpoint of step {step} in {self.folder}: {_words(err)}", stacklevel=2)
        self._writing = None

    def load(self, step: int, parts: Mapping[str, Stateful]) -> None:
        """Puts the state of a checkpoint into the parts.

        Raises:
            StateMismatch: it cannot be read, or is of another model. What was loaded before the fault stays loaded.
        """
        try:
            self._load(step, parts)
        except (Exception, CheckpointException) as err:
            others = sorted(self._steps() - {step}, reverse=True)
            raise StateMismatch(
                f"the checkpoint {self.path(step)} cannot be loaded: {_words(err)}; "
                + (f"without it, training starts from step {others[0]}" if others else "there is no other")
            ) from err

    def _load(self, step: int, parts: Mapping[str, Stateful]) -> None:
        state = _state_of(parts)
        sizes = FileSystemReader(self.path(step)).read_metadata().state_dict_metadata
        for name in state[_SERIALIZED]:
            told = sizes.get(f"{_SERIALIZED}.{name}")
            if not isinstance(told, TensorStorageMetadata):
                raise KeyError(f"it has no {name}")
            state[_SERIALIZED][name] = torch.empty(told.size, dtype=torch.uint8)
        with _alone():
            state_dict_loader.load(state, checkpoint_id=self.path(step), no_dist=True)
        model = parts.get("model")
        for name, part in parts.items():
            if isinstance(part, nn.Module):
                set_model_state_dict(part, state[name])
            elif isinstance(part, Optimizer) and isinstance(model, nn.Module):
                set_optimizer_state_dict(model, part, state[name])
            else:
                content = io.BytesIO(state[_SERIALIZED][name].numpy().tobytes())
                part.load_state_dict(torch.load(content, weights_only=True))

    def _write_and_tell(self, step: int, state: dict[str, Any], part: Part, written: Future[None]) -> None:
        try:
            self._write(step, state, part)
        except BaseException as err:
            written.set_exception(err)
        else:
            written.set_result(None)

    def _write(self, step: int, state: dict[str, Any], part: Part) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        unfinished = self.folder / f"writing-{step}-{part.tag}"
        for left in self.folder.glob("writing-*"):  # by members of which one has died, or that no longer write
            if not left.name.endswith(f"-{part.tag}"):
                shutil.rmtree(left, ignore_errors=True)
        with _alone():
            state_dict_saver.save(state, checkpoint_id=part.folder(unfinished), no_dist=True)
        if not part.completes(unfinished):
            return
        if part.of > 1:
            put_together(unfinished, part.of)
        for left in self.folder.glob(f"writing-*-{part.tag}"):  # a part that somebody has left out
            if int(left.name.split("-")[1]) < step:
                shutil.rmtree(left, ignore_errors=True)
        shutil.rmtree(self.path(step), ignore_errors=True)  # of a run before that had come further
        unfinished.rename(self.path(step))
        for old in sorted(self._steps())[: -self.keep]:
            shutil.rmtree(self.path(old), ignore_errors=True)

    def _steps(self) -> set[int]:
        if not self.folder.is_dir():
            return set()
        named = {one.name: _COMPLETE.fullmatch(one.name) for one in self.folder.iterdir()}
        return {int(match[1]) for name, match in named.items() if match and (self.folder / name / METADATA).is_file()}


def _words(error: BaseException) -> str:
    """Of what is behind a CheckpointException, whose own text is a traceback. It is no Exception."""
    failures = error.failures.values() if isinstance(error, CheckpointException) else [(error, None)]
    return "; ".join(str(one) for one, _ in failures)


@contextlib.contextmanager
def _alone() -> Iterator[None]:
    """Without the warning that one process does it: so it is meant."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*in a single process")
        yield


def _state_of(parts: Mapping[str, Stateful]) -> dict[str, Any]:
    state: dict[str, Any] = {_SERIALIZED: {}}
    model = parts.get("model")
    for name, part in parts.items():
        if isinstance(part, nn.Module):
            state[name] = get_model_state_dict(part)
        elif isinstance(part, Optimizer) and isinstance(model, nn.Module):
            state[name] = get_optimizer_state_dict(model, part)
        else:
            content = io.BytesIO()
            torch.save(part.state_dict(), content)
            state[_SERIALIZED][name] = torch.frombuffer(bytearray(content.getvalue()), dtype=torch.uint8)
    return state


def _copied(value: Any) -> Any:
    """On the CPU: the training changes its own while the copy is being written."""
    if isinstance(value, Tensor):
        return value.detach().to("cpu", copy=True)
    if isinstance(value, Mapping):
        return {key: _copied(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_copied(one) for one in value)
    return value
