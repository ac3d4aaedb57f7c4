"""Registers the backend with torch.distributed, under the names ``nccl2`` and ``pycomms``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import torch.distributed as dist

from pycomms.process_group._create import create_backend

if TYPE_CHECKING:
    from collections.abc import Callable

NAMES = ("nccl2", "pycomms")
DEVICES = ("cpu", "cuda")


class _Plugin(NamedTuple):
    creator: Callable[..., Any]
    extended_api: bool
    devices: tuple[str, ...]


_builtin: _Plugin | None = None


def register() -> None:
    """Makes ``nccl2`` and ``pycomms`` names of this backend. Also the entry point that torch looks up by name.

    A backend that torch itself has under the name ``nccl2`` (torch >= 2.14) is replaced; see :func:`builtin_nccl2`.
    """
    global _builtin
    plugin = dist.Backend._plugins.get("NCCL2")
    if plugin is not None and plugin.creator_fn is not create_backend:
        devices = tuple(dist.Backend.backend_capability["nccl2"])
        _builtin = _Plugin(plugin.creator_fn, plugin.extended_api, devices)
    for name in NAMES:
        known = dist.Backend._plugins.get(name.upper())
        if known is None or known.creator_fn is not create_backend:
            dist.Backend.register_backend(name, create_backend, extended_api=True, devices=list(DEVICES))


def builtin_nccl2(name: str = "builtin_nccl2") -> str:
    """Registers torch's own ``nccl2`` under another name and returns that name, for comparisons.

    Raises:
        LookupError: this torch has none.
    """
    if _builtin is None:
        raise LookupError("this torch has no nccl2 backend of its own (torch >= 2.14 with NCCL does)")
    dist.Backend.register_backend(name, _builtin.creator, _builtin.extended_api, list(_builtin.devices))
    return name
