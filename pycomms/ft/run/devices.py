"""How many workers a host gets where the command line names a kind of device."""

from __future__ import annotations

import os
import subprocess
import sys

_WITHIN = 120.0
_COUNTS = {
    "gpu": "torch.cuda.device_count()",
    "xpu": "torch.xpu.device_count()",
    "auto": "torch.accelerator.device_count() if torch.accelerator.is_available() else 0",
}


def workers_of(per_node: str) -> int:
    """per_node: a number, or gpu, xpu, cpu, auto. Raises ValueError where there is none."""
    if per_node.isdecimal():
        return int(per_node)
    count = 0 if per_node == "cpu" else _asked(per_node)
    if count == 0 and per_node in ("cpu", "auto"):
        count = len(os.sched_getaffinity(0))
    if count == 0:
        raise ValueError(f"--nproc-per-node={per_node}: torch finds none here")
    return count


def _asked(kind: str) -> int:
    """torch knows best; it is asked in a process of its own, for the agent does without."""
    try:
        done = subprocess.run(
            [sys.executable, "-c", f"import torch; print({_COUNTS[kind]})"],
            capture_output=True,
            text=True,
            timeout=_WITHIN,
            check=True,
        )
        return int(done.stdout.split()[-1])
    except (subprocess.SubprocessError, ValueError, IndexError) as error:
        raise ValueError(f"--nproc-per-node={kind}: torch cannot count them: {error}") from error
