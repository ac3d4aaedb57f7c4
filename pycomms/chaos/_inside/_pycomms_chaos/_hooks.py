"""Gets to know what the program does: wraps functions of torch.distributed, and is an observer of sessions.

A module that is not imported yet is wrapped when it has been imported.
"""

from __future__ import annotations

import functools
import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._worker import Worker

_FUNCTIONS = (
    "all_reduce", "broadcast", "reduce", "all_gather", "all_gather_into_tensor", "reduce_scatter",
    "reduce_scatter_tensor", "all_to_all", "all_to_all_single", "gather", "scatter", "barrier", "monitored_barrier",
    "send", "recv", "isend", "irecv", "all_gather_object", "gather_object", "broadcast_object_list",
    "scatter_object_list", "batch_isend_irecv", "new_group", "destroy_process_group",
)  # fmt: skip
_METHODS = {
    "allreduce": "all_reduce", "broadcast": "broadcast", "reduce": "reduce", "allgather": "all_gather",
    "_allgather_base": "all_gather_into_tensor", "reduce_scatter": "reduce_scatter",
    "_reduce_scatter_base": "reduce_scatter_tensor", "alltoall": "all_to_all", "alltoall_base": "all_to_all_single",
    "gather": "gather", "scatter": "scatter", "barrier": "barrier", "send": "send", "recv": "recv",
}  # fmt: skip
"""Of ProcessGroup, for programs and sessions that call them directly; what C++ calls is not seen."""


def install(worker: Worker) -> None:
    wanted: dict[str, Callable[[ModuleType], None]] = {
        "torch.distributed.distributed_c10d": lambda module: _wrap_c10d(worker, module),
        "torch.distributed": lambda module: _wrap_package(module),
        "torch.optim.optimizer": lambda module: _count_steps(worker, module),
        "pycomms.ft._sync_points": lambda module: _observe(worker, module),
    }
    for name in [name for name in wanted if name in sys.modules]:
        wanted.pop(name)(sys.modules[name])
    if wanted:
        sys.meta_path.insert(0, _Finder(wanted))


class _Finder(importlib.abc.MetaPathFinder):
    def __init__(self, wanted: dict[str, Callable[[ModuleType], None]]) -> None:
        self._wanted = wanted

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name not in self._wanted:
            return None
        for finder in sys.meta_path:
            spec = None if finder is self else finder.find_spec(name, path, target)
            if spec is not None:
                if spec.loader is not None:
                    self._call_behind(spec.loader, self._wanted.pop(name))
                return spec
        return None

    def _call_behind(self, loader: Any, then: Callable[[ModuleType], None]) -> None:
        execute = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            then(module)

        loader.exec_module = exec_module


def _wrap_c10d(worker: Worker, c10d: Any) -> None:
    for name in _FUNCTIONS:
        if hasattr(c10d, name):
            setattr(c10d, name, _wrapped(worker, name, getattr(c10d, name)))
    c10d.init_process_group = _with_record(worker, c10d.init_process_group)
    group: Any = c10d.ProcessGroup
    for method, name in _METHODS.items():
        if hasattr(group, method):
            setattr(group, method, _wrapped(worker, name, getattr(group, method)))
    package = sys.modules.get("torch.distributed")
    if package is not None:
        _wrap_package(package)


def _wrap_package(package: ModuleType) -> None:
    """The package has the names of the module that defines them."""
    c10d = sys.modules.get("torch.distributed.distributed_c10d")
    for name in (*_FUNCTIONS, "init_process_group"):
        if c10d is not None and hasattr(package, name) and hasattr(c10d, name):
            setattr(package, name, getattr(c10d, name))


def _wrapped(worker: Worker, name: str, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        return worker.operation(name, original, args, kwargs)

    return call


def _with_record(worker: Worker, original: Callable[..., Any]) -> Callable[..., Any]:
    """Before the first group is made, the flight recorder is attached, if its package is there and nobody else does."""

    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        given = str(kwargs.get("backend", args[0] if args else "") or "")
        if worker.awake(kwargs.get("rank") if kwargs.get("rank", -1) >= 0 else None) and "nccl2" not in given:
            _attach(worker)
        return worker.operation("init_process_group", original, args, kwargs)

    return call


def _attach(worker: Worker) -> None:
    if importlib.util.find_spec("pycomms") is None:
        return
    try:
        from pycomms import flight_recorder

        flight_recorder.attach()
    except Exception as error:  # the program is what is tested, not this
        worker.tell({"kind": "note", "text": f"no flight recorder: {error}"})


def _count_steps(worker: Worker, module: ModuleType) -> None:
    """Of a program that does not say its steps: the first optimizer's."""
    first: list[int] = []

    def before(optimizer: object, args: object, kwargs: object) -> None:
        if not first:
            first.extend((id(optimizer), 0))
        if first[0] == id(optimizer):
            first[1] += 1
            worker.step(first[1], "optimizer")

    module.register_optimizer_step_pre_hook(before)


def _observe(worker: Worker, sync_points: Any) -> None:
    def observer(point: str, slot: int, step: int, told: dict[str, object]) -> None:
        worker.point(point, step, told)

    sync_points.observer = observer
