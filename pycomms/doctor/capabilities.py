"""What pycomms can do, and what each of it needs: the one table. docs/versions.md shows it.

Needs are looked for, not derived from version numbers. Importing this imports neither torch nor the extension.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol


class Installed(Protocol):
    """What is installed, for needs to look at."""

    python: tuple[int, int]

    def has(self, place: str) -> bool:
        """place: ``module:attribute``, or a module alone. False also where the attribute is None or False."""
        ...

    def is_entry_point(self, group: str, name: str) -> bool: ...

    @property
    def extension(self) -> str:
        """Why pycomms' extension cannot be used; empty: it can."""
        ...

    def nccl_has(self, function: str) -> bool:
        """The libnccl that torch has loaded. Without a function: whether there is one that we can use."""
        ...

    @property
    def gpus(self) -> int: ...


@dataclass(frozen=True, kw_only=True)
class Need:
    """text: the same in every version, and for the documentation. missing: a reason, where it is not met."""

    text: str
    missing: str
    is_met: Callable[[Installed], bool]


@dataclass(frozen=True, kw_only=True)
class Capability:
    """name: the same in every version. otherwise: what there is without it. page: of docs/."""

    name: str
    what: str
    needs: tuple[Need, ...]
    otherwise: str
    page: str


_C10D = "torch.distributed.distributed_c10d"
_IN_C = "torch._C._distributed_c10d"


def _of_torch(version: str, place: str, what: str) -> Need:
    return Need(
        text=f"torch {version}",
        missing=f"this torch has no {what} (torch {version} has)",
        is_met=lambda i: i.has(place),
    )


def _package(name: str, module: str, extra: str = "") -> Need:
    how = f"pip install 'pycomms[{extra}]'" if extra else f"pip install {name}"
    return Need(text=name, missing=f"{name} is not installed: {how}", is_met=lambda i: i.has(module))


def _nccl(version: str, function: str) -> Need:
    return Need(
        text=f"NCCL {version}",
        missing=f"the NCCL that torch has loaded has no {function} (NCCL {version} has)",
        is_met=lambda i: i.nccl_has(function),
    )


EXTENSION = Need(
    text="the extension",
    missing="the extension cannot be used: see versions",
    is_met=lambda i: not i.extension,
)
_GPU = Need(
    text="a GPU",
    missing="torch finds no GPU: see gpu",
    is_met=lambda i: i.gpus > 0,
)
ANY_NCCL = Need(
    text="NCCL 2.18",
    missing="torch has loaded no NCCL that pycomms can use: see nccl",
    is_met=lambda i: i.nccl_has(""),
)
_ON_GPU = (EXTENSION, _GPU, ANY_NCCL)
_REGROUP = _of_torch("2.14", "pycomms._C:can_regroup", "group that can change its size")

CAPABILITIES = (
    Capability(
        name="cpu_tensors",
        what="all collectives, point-to-point and groups on CPU tensors, on one host and several",
        needs=(EXTENSION,),
        otherwise="",
        page="groups.md",
    ),
    Capability(
        name="no_import",
        what='`init_process_group("pycomms")` without `import pycomms`',
        needs=(
            EXTENSION,
            _of_torch("2.14", f"{_C10D}:Backend._ensure_backend_registered", "look-up of installed backends"),
            Need(
                text="pycomms installed by pip",
                missing="pycomms is not installed by pip here, only found on the module path",
                is_met=lambda i: i.is_entry_point("torch.distributed.backends", "pycomms"),
            ),
        ),
        otherwise="`import pycomms` before it",
        page="five_minutes.md",
    ),
    Capability(
        name="regroup",
        what="`pycomms.regroup`: a group goes on without the dead, or with newcomers",
        needs=(EXTENSION, _REGROUP),
        otherwise="`pycomms.shrink_group`: another group, of those who are left",
        page="regroup.md",
    ),
    Capability(
        name="torch_reconfigure",
        what="the same by torch's own `enable_reconfigure` and `_reconfigure`",
        needs=(EXTENSION, _of_torch("2.14", f"{_C10D}:_reconfigure", "`_reconfigure`")),
        otherwise="`pycomms.regroup`",
        page="regroup.md",
    ),
    Capability(
        name="windows",
        what="`pycomms.rma`: windows over CPU tensors",
        needs=(EXTENSION,),
        otherwise="",
        page="rma.md",
    ),
    Capability(
        name="torch_windows",
        what="torch's own windows, `new_window`",
        needs=(EXTENSION, _of_torch("2.14", f"{_C10D}:_new_window", "windows")),
        otherwise="`pycomms.rma`",
        page="rma.md",
    ),
    Capability(
        name="recorder",
        what="flight recorder: what our groups do, read by `pycomms fr`",
        needs=(EXTENSION, _package("numpy", "numpy")),
        otherwise="",
        page="flight_recorder.md",
    ),
    Capability(
        name="recorder_attach",
        what="`flight_recorder.attach()`: what groups of any backend do",
        needs=(
            EXTENSION,
            Need(
                text="torch 2.14",
                missing="this torch has no hooks around operations (torch 2.14 has)",
                is_met=lambda i: i.has("pycomms._C:recorder_has_hooks"),
            ),
        ),
        otherwise="`pycomms fr analyze` reads the dumps that torch itself writes",
        page="flight_recorder.md",
    ),
    Capability(
        name="recorder_free_lines",
        what="flight recorder: the calling line is found without Python's lock",
        needs=(
            EXTENSION,
            Need(
                text="CPython 3.11",
                missing="this is not CPython 3.11",
                is_met=lambda i: i.python == (3, 11),
            ),
        ),
        otherwise="it is found with the lock, which costs more",
        page="flight_recorder.md",
    ),
    Capability(
        name="gather_single",
        what="`dist.gather_into_tensor`",
        needs=(EXTENSION, _of_torch("2.14", "torch.distributed:gather_into_tensor", "`gather_into_tensor`")),
        otherwise="`dist.gather`",
        page="groups.md",
    ),
    Capability(
        name="monitored_barrier",
        what="`dist.monitored_barrier`",
        needs=(EXTENSION, _of_torch("2.14", "pycomms._C:can_regroup", "`monitored_barrier` for others than gloo")),
        otherwise="`dist.barrier`",
        page="groups.md",
    ),
    Capability(
        name="sessions",
        what="`pycomms.ft`, `pycomms run`, `pycomms coordinator`: training goes on when workers die and come",
        needs=(EXTENSION, _REGROUP, _package("grpcio", "grpc"), _package("protobuf", "google.protobuf")),
        otherwise="torchrun starts all again, from `ft.Checkpoints`",
        page="ft.md",
    ),
    Capability(
        name="replicas",
        what="`ft.Replica`: the same with models that FSDP2 shards",
        needs=(EXTENSION, _REGROUP, _package("grpcio", "grpc")),
        otherwise="models that each member holds whole",
        page="ft.md",
    ),
    Capability(
        name="mpi",
        what="`process_group.from_mpi()`: under mpirun",
        needs=(EXTENSION, _package("mpi4py", "mpi4py", "mpi")),
        otherwise="torchrun, Slurm, Kubernetes, `pycomms run`",
        page="howto/mpirun.md",
    ),
    Capability(
        name="gpu_tensors",
        what="all of that on GPU tensors",
        needs=_ON_GPU,
        otherwise="CPU tensors",
        page="gpu.md",
    ),
    Capability(
        name="gpu_split",
        what="groups of a group with a `device_id` are split from it",
        needs=(*_ON_GPU, _of_torch("2.14", f"{_IN_C}:_DistributedBackendOptions.split_from", "parent for such groups")),
        otherwise="they connect as any group does",
        page="gpu.md",
    ),
    Capability(
        name="gpu_revoke",
        what="after a failure NCCL's communicator is revoked and the next one made from it",
        needs=(*_ON_GPU, _nccl("2.29", "ncclCommRevoke")),
        otherwise="it is aborted, and the next one made anew",
        page="gpu.md",
    ),
    Capability(
        name="gpu_windows",
        what="windows over GPU tensors",
        needs=(*_ON_GPU, _nccl("2.29", "ncclPutSignal")),
        otherwise="windows over CPU tensors",
        page="rma.md",
    ),
    Capability(
        name="gpu_memory_pools",
        what="`register_mem_pool`",
        needs=(*_ON_GPU, _nccl("2.19", "ncclCommRegister")),
        otherwise="NCCL copies through memory of its own",
        page="gpu.md",
    ),
    Capability(
        name="gpu_symmetric_memory",
        what="`register_mem_pool(symm=True)`",
        needs=(*_ON_GPU, _nccl("2.27", "ncclCommWindowRegister")),
        otherwise="`register_mem_pool(pool)`",
        page="gpu.md",
    ),
    Capability(
        name="gpu_segments",
        what="`register_segments`: all memory of torch's allocator",
        needs=_ON_GPU,
        otherwise="`register_mem_pool`",
        page="gpu.md",
    ),
    Capability(
        name="gpu_many_roots",
        what="large groups start with several unique ids",
        needs=(*_ON_GPU, _nccl("2.23", "ncclCommInitRankScalable")),
        otherwise="with one",
        page="gpu.md",
    ),
    Capability(
        name="gpu_estimates",
        what="`torch.distributed._time_estimator`",
        needs=(*_ON_GPU, _nccl("2.22", "ncclGroupSimulateEnd")),
        otherwise="",
        page="gpu.md",
    ),
    Capability(
        name="gpu_suspend",
        what="`backend.suspend()` gives NCCL's memory back for a while",
        needs=(*_ON_GPU, _nccl("2.30", "ncclCommSuspend")),
        otherwise="destroy the group",
        page="gpu.md",
    ),
    Capability(
        name="torchs_nccl2",
        what="`pycomms.builtin_nccl2()`: torch's own backend of that name, for comparisons",
        needs=(*_ON_GPU, _of_torch("2.14", f"{_C10D}:_create_nccl2_process_group", "`nccl2` of its own")),
        otherwise="",
        page="gpu.md",
    ),
)


def missing(installed: Installed) -> dict[str, list[str]]:
    """By name of the capability, the texts of all needs that are not met."""
    return {one.name: [need.text for need in one.needs if not need.is_met(installed)] for one in CAPABILITIES}


def reason(one: Capability, missing: Sequence[str]) -> str:
    """Why there is none, in a sentence: what is to be had first. missing: of this capability; empty: it is there."""
    return next((need.missing for need in one.needs if need.text in missing), "")


def group_by_reason(missing: Mapping[str, Sequence[str]]) -> dict[str, list[Capability]]:
    """Those that are not there, by why."""
    groups: dict[str, list[Capability]] = {}
    for one in CAPABILITIES:
        if why := reason(one, missing[one.name]):
            groups.setdefault(why, []).append(one)
    return groups
