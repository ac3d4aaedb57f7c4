"""The process that plays a rank: takes one job after the other until the parent goes away. Runs jobs on its main
thread, because signals arrive there. Its output goes to a file that the parent shows when something fails.
"""

from __future__ import annotations

import ctypes
import faulthandler
import io
import os
import signal
import sys
import traceback
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import set_debug_level_from_env

from .context import Context, set_context
from .job import Job, resolve

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

_PR_SET_PDEATHSIG = 1


def main(parent: Connection, log_path: str, host: str) -> None:
    """host: the one that the worker pretends to be on; empty: the real one."""
    _die_with_parent()
    if host:
        os.environ.update({"PYCOMMS_HOST_ID": host, "PYCOMMS_SOCKET_IFNAME": "=lo"})
    os.setpgid(0, 0)  # Ctrl-C in the terminal is the parent's to handle
    _redirect_output(log_path)
    torch.set_num_threads(1)
    parent.send("ready")
    while True:
        try:
            job = parent.recv()
        except (EOFError, OSError):
            return
        parent.send(_perform(job, parent))


def _perform(job: Job, parent: Connection) -> tuple[str, Any]:
    os.environ.update(job.env)
    if "TORCH_DISTRIBUTED_DEBUG" in job.env:
        set_debug_level_from_env()
    current = Context(job, parent)
    set_context(current)
    try:
        if job.init:
            current.init()
        value = resolve(job.target)(job.rank, job.world, *job.args, **job.kwargs)
        if dist.is_initialized():
            dist.destroy_process_group()
        return "ok", value
    except BaseException:
        return "failed", traceback.format_exc()
    finally:
        set_context(None)


def _die_with_parent() -> None:
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() == 1:
        sys.exit("the parent was gone before this process had begun")


def _redirect_output(log_path: str) -> None:
    log = os.open(log_path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.close(log)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(line_buffering=True)
    faulthandler.enable(file=2)
    faulthandler.register(signal.SIGUSR1, file=2, all_threads=True)
