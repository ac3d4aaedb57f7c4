"""pycomms: a collective-communications backend for PyTorch that does not hang silently.

``import pycomms`` registers the backend ``nccl2`` with torch.distributed; ``init_process_group("pycomms")`` needs no
import at all. Importing starts no thread, opens no socket and creates no CUDA context.
"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pycomms._register import builtin_nccl2, register
    from pycomms._version import __version__
    from pycomms._versions import NcclVersion, nccl_version
    from pycomms.errors import (
        CollectiveMismatch,
        CollectiveTimeout,
        CommunicatorClosed,
        CommunicatorRevoked,
        EngineError,
        Interrupted,
        NotFinite,
        PeerFailure,
        PycommsError,
    )
    from pycomms.process_group import (
        Connect,
        NanCheck,
        Options,
        generation,
        on_regroup,
        regroup,
        regroup_handle,
        shrink_group,
    )

__all__ = [
    "CollectiveMismatch",
    "CollectiveTimeout",
    "CommunicatorClosed",
    "CommunicatorRevoked",
    "Connect",
    "EngineError",
    "Interrupted",
    "NanCheck",
    "NcclVersion",
    "NotFinite",
    "Options",
    "PeerFailure",
    "PycommsError",
    "__version__",
    "builtin_nccl2",
    "generation",
    "nccl_version",
    "on_regroup",
    "register",
    "regroup",
    "regroup_handle",
    "shrink_group",
]

# Names are looked up here when they are first used: the command `pycomms` reads records of other processes, also where
# there is no torch, and to import torch takes more than a second.
_HOMES = ("pycomms._version", "pycomms.errors", "pycomms._register", "pycomms._versions", "pycomms.process_group")


def __getattr__(name: str) -> object:
    for home in _HOMES if name in __all__ else ():
        module = import_module(home)
        if hasattr(module, name):
            value: object = getattr(module, name)
            globals()[name] = value
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def _is_the_command() -> bool:
    """``pycomms …``, or ``python -m pycomms …``: sys.argv starts with -m while Python looks for what it is to run."""
    program = (getattr(sys, "argv", None) or [""])[0]
    if program == "-m":  # perhaps a module of ours that is a program itself
        words = sys.orig_argv
        return "-m" in words and words[words.index("-m") + 1 :][:1] == ["pycomms"]
    return Path(program).name == "pycomms"


if not _is_the_command():
    try:
        import_module("pycomms._register").register()
    except ModuleNotFoundError as missing:
        if missing.name != "torch":  # without torch there is nothing to register with, and what needs none works
            raise
