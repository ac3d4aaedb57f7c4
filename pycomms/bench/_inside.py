"""The child that looks which backends this torch has, so that the command itself needs no torch."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

from pycomms.doctor.child import begin, tell

BACKENDS = ("pycomms", "gloo", "nccl", "builtin_nccl2")
_OF = {"cpu": ("pycomms", "gloo"), "cuda": ("pycomms", "nccl", "builtin_nccl2")}


def possible(device: str) -> tuple[str, ...]:
    """The backends that work on its tensors, in the order in which they are shown."""
    return _OF[device]


def main(_: Sequence[str]) -> None:
    begin("torch")
    torch = import_module("torch")
    tell("torch", version=torch.__version__)
    begin("gpus")
    tell("gpus", count=torch.cuda.device_count() if torch.cuda.is_available() else 0)
    begin("backends")
    tell("backends", **{name: _why_not(name, torch) for name in BACKENDS})


def _why_not(name: str, torch: Any) -> str:
    """Why it is not there; empty: it is."""
    dist = torch.distributed
    if name == "pycomms":
        try:
            import_module("pycomms._built_for").check(torch.__version__)
            import_module("pycomms._C")
        except ImportError as error:
            return f"its extension cannot be loaded ({error}): `pycomms doctor` says more"
        return ""
    if not dist.is_available():
        return "this torch has no torch.distributed"
    if name == "gloo":
        return "" if dist.is_gloo_available() else "this torch is built without gloo"
    if not dist.is_nccl_available():
        return "this torch is built without NCCL"
    if name == "builtin_nccl2" and not hasattr(dist.distributed_c10d, "_create_nccl2_process_group"):
        return "this torch has none: 2.14 and newer do"
    return ""
