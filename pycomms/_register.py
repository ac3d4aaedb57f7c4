"""Registers the backend with torch.distributed, under the names ``nccl2`` and ``pycomms``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import torch.distributed as dist

from pycomms import _built_for

if TYPE_CHECKING:
    from torch._C._distributed_c10d import Backend, _DistributedBackendOptions

NAMES = ("nccl2", "pycomms")
DEVICES = ("cpu", "cuda")


def register() -> None:
    """Makes ``nccl2`` and ``pycomms`` names of this backend. Also the entry point that torch looks up by name.

    A backend that torch itself has under the name ``nccl2`` (torch >= 2.14) is replaced; see :func:`builtin_nccl2`.

    Raises:
        ImportError: pycomms is built for another torch than this one.
    """
    _built_for.check(torch.__version__)
    for name in NAMES:
        known = dist.Backend._plugins.get(name.upper())
        if known is None or known.creator_fn is not _create:
            dist.Backend.register_backend(name, _create, extended_api=True, devices=list(DEVICES))


def _create(opts: _DistributedBackendOptions, options: object | None) -> Backend | None:
    """What makes groups, and what they need when they regroup, is loaded with the first one."""
    from pycomms.process_group._create import create_backend

    return create_backend(opts, options)


def builtin_nccl2(name: str = "builtin_nccl2") -> str:
    """Registers torch's own ``nccl2`` under another name and returns that name, for comparisons.

    Raises:
        LookupError: this torch has none.
    """
    # torch registers it when somebody asks for "nccl2", which is us by then: so it is found by its maker.
    creator = getattr(dist.distributed_c10d, "_create_nccl2_process_group", None)
    if creator is None or not dist.is_nccl_available():
        raise LookupError("this torch has no nccl2 backend of its own (torch >= 2.14 with NCCL does)")
    if name.upper() not in dist.Backend._plugins:
        dist.Backend.register_backend(name, creator, extended_api=True, devices=["cuda"])
    return name
