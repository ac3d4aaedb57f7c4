"""What a reader of figures has to know of the machine that they are of."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pycomms.doctor import cgroups


def usable_cores() -> list[int]:
    return sorted(os.sched_getaffinity(0))


def describe(cores: Sequence[int]) -> dict[str, Any]:
    """cores: that the benchmark may use."""
    models = [
        line.partition(":")[2].strip()
        for line in Path("/proc/cpuinfo").read_text().splitlines()
        if line.startswith("model name")
    ]
    return {
        "cpu": models[0] if models else platform.machine(),
        "cores": len(cores),
        "quota": cgroups.look().cpus,  # cores' time that a container is allowed; None: all
        "kernel": platform.release(),
        "python": platform.python_version(),
    }
