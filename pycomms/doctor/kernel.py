"""What pycomms asks of the kernel besides files and memory: sandboxes forbid some of it. Nothing raises."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path


def memfd() -> str:
    """Why no anonymous shared memory can be made; empty: it can."""
    return _trouble(lambda: os.close(os.memfd_create("pycomms-doctor", os.MFD_CLOEXEC)))


def pidfd() -> str:
    """Why no process can be watched; empty: it can."""
    return _trouble(lambda: os.close(os.pidfd_open(os.getpid())))


def ptrace_scope() -> int | None:
    """Of Yama; None: there is none."""
    try:
        return int(Path("/proc/sys/kernel/yama/ptrace_scope").read_text())
    except (OSError, ValueError):
        return None


def namespace(kind: str) -> str:
    """The kernel's name of the one that this process is in, such as ``net:[4026531840]``; empty: not known."""
    try:
        return str(Path("/proc/self/ns", kind).readlink())
    except OSError:
        return ""


def _trouble(attempt: Callable[[], None]) -> str:
    try:
        attempt()
    except (OSError, AttributeError) as error:  # a Python made for older systems lacks the function
        return str(error)
    return ""
