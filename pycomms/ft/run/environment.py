"""The environment of a worker. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pycomms.ft.core.launch import JobState


@dataclass(frozen=True, kw_only=True)
class Host:
    """What all workers of a host share.

    Attributes:
        name: of the host, in `MemberId.host`.
        agent: path of the agent's socket.
    """

    name: str
    slots: int
    role: str
    max_restarts: int
    agent: str
    coordinator: str
    token_file: str
    recovery_deadline: float
    virtual_local_rank: bool


@dataclass(frozen=True, kw_only=True)
class Life:
    """What one process is told of itself.

    Attributes:
        incarnation: how many processes there were in its slot before it.
        nonce: of `MemberId`.
        error_file: where torch's ``@record`` puts an exception.
    """

    local_rank: int
    incarnation: int
    nonce: str
    error_file: str


def worker_environment(base: Mapping[str, str], host: Host, job: JobState, life: Life) -> dict[str, str]:
    """Raises ValueError if ``CUDA_VISIBLE_DEVICES`` has too few for ``--virtual-local-rank``."""
    place = job.place_of(host.name)
    rank = place.first_rank + life.local_rank
    told = {
        "RANK": rank,
        "LOCAL_RANK": life.local_rank,
        "GROUP_RANK": job.places.index(place),
        "ROLE_RANK": rank,
        "ROLE_NAME": host.role,
        "LOCAL_WORLD_SIZE": place.slots,
        "WORLD_SIZE": job.world_size,
        "GROUP_WORLD_SIZE": len(job.places),
        "ROLE_WORLD_SIZE": job.world_size,
        "MASTER_ADDR": job.master_addr,
        "MASTER_PORT": job.master_port,
        "TORCHELASTIC_RESTART_COUNT": life.incarnation,
        "TORCHELASTIC_MAX_RESTARTS": host.max_restarts,
        "TORCHELASTIC_RUN_ID": job.name,
        "TORCHELASTIC_USE_AGENT_STORE": False,
        "TORCHELASTIC_ERROR_FILE": life.error_file,
        "TORCH_NCCL_ASYNC_ERROR_HANDLING": base.get("TORCH_NCCL_ASYNC_ERROR_HANDLING", "1"),
        "PYCOMMS_AGENT": host.agent,
        "PYCOMMS_COORDINATOR": host.coordinator,
        "PYCOMMS_SLOT": rank,
        "PYCOMMS_MEMBER": life.nonce,
        "PYCOMMS_HOST": host.name,
        "PYCOMMS_INCARNATION": life.incarnation,
        "PYCOMMS_JOB_TOKEN_FILE": host.token_file,
        "PYCOMMS_RECOVERY_DEADLINE": host.recovery_deadline,
    }
    if place.slots > 1 and "OMP_NUM_THREADS" not in base:
        told["OMP_NUM_THREADS"] = 1  # as torchrun does: each worker would take all cores otherwise
    if host.virtual_local_rank:
        told["LOCAL_RANK"] = 0
        told["CUDA_VISIBLE_DEVICES"] = _device(base.get("CUDA_VISIBLE_DEVICES"), life.local_rank)
    return {**base, **{name: str(value) for name, value in told.items()}}


def _device(visible: str | None, local_rank: int) -> str:
    if visible is None:
        return str(local_rank)
    devices = [device.strip() for device in visible.split(",")]
    if local_rank >= len(devices):
        raise ValueError(
            f"--virtual-local-rank: local rank {local_rank} has no GPU, CUDA_VISIBLE_DEVICES is {visible!r}"
        )
    return devices[local_rank]
