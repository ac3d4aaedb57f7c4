"""The section on limits: memory, cores, descriptors, and what kernel and container allow. Pure but for `look`."""

from __future__ import annotations

import os
import resource
from dataclasses import dataclass
from pathlib import Path

from pycomms.doctor import cgroups, kernel
from pycomms.doctor.child import Told
from pycomms.doctor.finding import Finding, note, ok, problem

_MIB, _GIB = 1 << 20, 1 << 30
_RECORDS = 4 * _MIB
_ELSEWHERE = "set PYCOMMS_FR_DIR to a folder of your own, or PYCOMMS_FR_ENTRIES=0 to record nothing"
_SANDBOX = "if a sandbox forbids it, run outside of it or allow"
_FEW_DESCRIPTORS = 256
_SOME_DESCRIPTORS = 1024


@dataclass(frozen=True, kw_only=True)
class Seen:
    """Bytes; -1: unlimited. shm_trouble, memfd and pidfd say what is wrong; empty: nothing."""

    shm_size: int
    shm_free: int
    shm_trouble: str
    descriptors: int
    most_descriptors: int
    locked: int
    cores: int
    allowed_cores: int
    memory: int
    groups: cgroups.Limits
    memfd: str
    pidfd: str
    ptrace_scope: int | None
    network_namespace: str
    process_namespace: str


def look() -> Seen:
    size, free, trouble = _shared_memory(Path("/dev/shm"))
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return Seen(
        shm_size=size,
        shm_free=free,
        shm_trouble=trouble,
        descriptors=soft,
        most_descriptors=hard,
        locked=resource.getrlimit(resource.RLIMIT_MEMLOCK)[0],
        cores=os.cpu_count() or 1,
        allowed_cores=len(os.sched_getaffinity(0)),
        memory=os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
        groups=cgroups.look(),
        memfd=kernel.memfd(),
        pidfd=kernel.pidfd(),
        ptrace_scope=kernel.ptrace_scope(),
        network_namespace=kernel.namespace("net"),
        process_namespace=kernel.namespace("pid"),
    )


def _shared_memory(folder: Path) -> tuple[int, int, str]:
    try:
        space = os.statvfs(folder)
    except OSError as error:
        return 0, 0, str(error)
    trouble = "" if os.access(folder, os.W_OK | os.X_OK) else "it cannot be written to"
    return space.f_blocks * space.f_frsize, space.f_bavail * space.f_frsize, trouble


def judge(seen: Seen, told: Told, *, records_in_shm: bool = True) -> list[Finding]:
    """records_in_shm: whether the flight recorder's files lie in /dev/shm."""
    return [
        _judge_memory(seen),
        _judge_shm(seen, records_in_shm=records_in_shm),
        _judge_cores(seen),
        _judge_descriptors(seen),
        _judge_locked(seen, has_gpus=bool((told.of("cuda") or {}).get("models"))),
        _judge_memfd(seen),
        _judge_pidfd(seen),
        _judge_ptrace(seen, told),
        _judge_namespaces(seen),
    ]


def _judge_memory(seen: Seen) -> Finding:
    limit, used = seen.groups.memory, seen.groups.used
    if limit is None or used is None or limit > seen.memory:
        return ok("memory", f"{amount(seen.memory)}, no limit of a control group below that", seen.memory)
    text = f"{amount(limit)} for this control group, of which {amount(used)} are used, files in memory included"
    if limit - used < _GIB // 2:
        return note(
            "memory", text, "raise the limit: shared memory counts too, and the kernel kills who needs more", limit
        )
    return ok("memory", text, limit)


def _judge_shm(seen: Seen, *, records_in_shm: bool) -> Finding:
    """The shared memory of a group has no name and lies elsewhere."""
    name = "/dev/shm"
    if seen.shm_trouble:
        return _judge_no_shm(seen.shm_trouble, records_in_shm=records_in_shm)
    text = f"{amount(seen.shm_free)} free of {amount(seen.shm_size)}"
    if seen.shm_free < _RECORDS and records_in_shm:
        return problem(
            name,
            f"{text}: the flight recorder needs about 1 MiB for each rank, and records nothing where there is no room",
            f"make room there, in a container by --shm-size=1g or --ipc=host, or {_ELSEWHERE}",
            seen.shm_free,
        )
    if seen.shm_size <= 64 * _MIB:
        return note(
            name,
            f"{text}: enough for pycomms, and little for torch's DataLoader",
            "in a container: --shm-size=1g or --ipc=host",
            seen.shm_free,
        )
    return ok(name, f"{text}; of pycomms only the flight recorder's files lie there", seen.shm_free)


def _judge_no_shm(trouble: str, *, records_in_shm: bool) -> Finding:
    if records_in_shm:
        return problem("/dev/shm", f"{trouble}: the flight recorder records nothing", _ELSEWHERE)
    return note("/dev/shm", f"{trouble}; torch's DataLoader needs it, pycomms does not")


def _judge_cores(seen: Seen) -> Finding:
    quota = seen.groups.cpus
    text = f"{seen.allowed_cores} of {seen.cores}"
    if quota is not None and quota < seen.allowed_cores:
        return note(
            "cores",
            f"{text}, and a control group allows the time of {quota:g}: ranks are halted while others wait for them",
            f"at most {max(int(quota), 1)} ranks, or a larger quota",
            quota,
        )
    if seen.allowed_cores < 2:
        return note("cores", f"{text}: ranks take turns", "performance is that of one core", seen.allowed_cores)
    if seen.allowed_cores < seen.cores:
        return ok("cores", f"{text}: the affinity of this process allows no more", seen.allowed_cores)
    return ok("cores", text, seen.allowed_cores)


def _judge_descriptors(seen: Seen) -> Finding:
    limit = "no limit" if seen.descriptors < 0 else f"{seen.descriptors} (at most {seen.most_descriptors})"
    if 0 <= seen.descriptors < _FEW_DESCRIPTORS:
        return problem(
            "descriptors", f"{limit}: each rank needs some for each other rank", "ulimit -n 4096", seen.descriptors
        )
    if 0 <= seen.descriptors < _SOME_DESCRIPTORS:
        return note("descriptors", f"{limit}: little for large groups", "ulimit -n 4096", seen.descriptors)
    return ok("descriptors", limit, seen.descriptors)


def _judge_locked(seen: Seen, *, has_gpus: bool) -> Finding:
    if seen.locked < 0:
        return ok("locked memory", "no limit", seen.locked)
    text = f"{amount(seen.locked)}; pycomms locks none"
    if has_gpus:
        return note(
            "locked memory", f"{text}, NCCL over InfiniBand does", "with InfiniBand: ulimit -l unlimited", seen.locked
        )
    return ok("locked memory", text, seen.locked)


def _judge_memfd(seen: Seen) -> Finding:
    if seen.memfd:
        return problem(
            "memfd", f"{seen.memfd}: there is no shared memory, and so no group", f"{_SANDBOX} memfd_create there"
        )
    return ok("memfd", "anonymous shared memory can be made")


def _judge_pidfd(seen: Seen) -> Finding:
    if seen.pidfd:
        return problem(
            "pidfd",
            f"{seen.pidfd}: `pycomms run` and `pycomms chaos` do not work, and a death may be noticed later",
            f"Linux 5.3 or newer; {_SANDBOX} pidfd_open there",
        )
    return ok("pidfd", "processes can be watched")


def _judge_ptrace(seen: Seen, told: Told) -> Finding:
    """To open /proc/PID/fd/N takes the right to read another process, which Yama does not restrict."""
    name, scope = "ptrace", seen.ptrace_scope
    yama = "" if scope is None else f"; Yama's ptrace_scope is {scope}, which matters to py-spy and gdb only"
    peers = told.of("peers")
    if peers is None:
        return note(name, f"not known: {told.why_not('peers')}{yama}", "", scope)
    if peers["error"]:
        return note(
            name,
            f"one process cannot map another's memory ({peers['error']}): windows and large sums of tensors in shared "
            f"memory work, and are slower{yama}",
            "all ranks of a host as the same user, in the same container",
            scope,
        )
    return ok(name, f"processes of one user can map each other's memory{yama}", scope)


def _judge_namespaces(seen: Seen) -> Finding:
    known = [one for one in (seen.network_namespace, seen.process_namespace) if one]
    if not known:
        return note("namespaces", "not known: /proc/self/ns cannot be read")
    text = (
        f"{', '.join(known)}; ranks of another network namespace count as on another host, those of another process "
        "namespace cannot map each other's memory"
    )
    return ok("namespaces", text, known)


def amount(number: float) -> str:
    """Of bytes."""
    units = ["TiB", "GiB", "MiB", "KiB", "B"]
    while number >= 1024 and len(units) > 1:
        number /= 1024
        units.pop()
    unit = units[-1]
    return f"{number:.0f} {unit}" if number >= 10 or unit == "B" else f"{number:.1f} {unit}"
