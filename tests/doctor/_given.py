"""A system on which all is well, for tests that change one thing of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from pycomms.doctor import cgroups, limits
from pycomms.doctor.capabilities import CAPABILITIES
from pycomms.doctor.child import Told
from pycomms.doctor.finding import Finding, Level
from pycomms.doctor.gpus import Hardware
from pycomms.doctor.versions import Own

GIB = 1 << 30
PACKAGES = "/venv/lib/python3.12/site-packages"
NCCL = f"{PACKAGES}/nvidia/nccl/lib/libnccl.so.2"

STAGES: Mapping[str, dict[str, Any]] = {
    "peers": {"error": ""},
    "engine": {
        "path": "/pycomms/lib/libhostccl.so",
        "error": "",
        "widest": "avx2",
        "vectors": "avx2",
        "address": "aa0a.0400f5ad00000000c0000202000000000000000000000000.pycomms-45e2",
        "address_error": "",
    },
    "torch": {
        "error": "",
        "version": "2.14.1+cu130",
        "cuda": "13.0",
        "hip": "",
        "path": f"{PACKAGES}/torch",
        "distributed": True,
    },
    "extension": {"error": "", "torch": "2.14.1"},
    "nccl": {"loaded": [NCCL], "version": 23007, "built_with": [2, 30, 7]},
    "cuda": {"models": [], "warnings": []},
    "capabilities": {one.name: [] for one in CAPABILITIES},
}
"""What the child tells."""

LIMITS = limits.Seen(
    shm_size=8 * GIB,
    shm_free=8 * GIB,
    shm_trouble="",
    descriptors=4096,
    most_descriptors=4096,
    locked=-1,
    cores=4,
    allowed_cores=4,
    memory=16 * GIB,
    groups=cgroups.Limits(memory=None, used=None, cpus=None),
    memfd="",
    pidfd="",
    ptrace_scope=1,
    network_namespace="net:[1]",
    process_namespace="pid:[2]",
)
HARDWARE = Hardware(driver="", devices=(), tool="", visible=None, library_path="", preload="")
OWN = Own(
    version="0.1.0",
    folder="/pycomms",
    modules=("_C.cpython-312-x86_64-linux-gnu.so",),
    suffix=".cpython-312-x86_64-linux-gnu.so",
    python="CPython 3.12.1",
    executable="/venv/bin/python",
    system="Linux",
)


def told(*, without: Iterable[str] = (), broke_in: str = "", ended: str = "", **changes: dict[str, Any]) -> Told:
    """What the child tells, with other facts of some stages, and nothing of those that it is without."""
    stages = {name: {**facts, **changes.get(name, {})} for name, facts in STAGES.items() if name not in set(without)}
    return Told(stages=stages, broke_in=broke_in, ended=ended, last_words="the last words" if ended else "")


def judge_limits(*, records_in_shm: bool = True, **changes: Any) -> dict[str, Finding]:
    """By name, of a system that differs in that."""
    return by_name(limits.judge(replace(LIMITS, **changes), told(), records_in_shm=records_in_shm))


def by_name(findings: Iterable[Finding]) -> dict[str, Finding]:
    found = list(findings)
    assert len({one.name for one in found}) == len(found)
    for one in found:
        assert one.todo or one.level is not Level.PROBLEM, f"what to do about {one.name}?"
    return {one.name: one for one in found}
