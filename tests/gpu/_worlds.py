"""How many ranks a machine can run. Pure."""

from __future__ import annotations

_MOST = 8
_SHARES_A_GPU = (2, 30)  # the first NCCL that lets two ranks use one, with NCCL_MULTI_RANK_GPU_ENABLE=1


def worlds(gpus: int, nccl: tuple[int, ...]) -> tuple[tuple[int, ...], str]:
    """Numbers of ranks, the largest last, and why these."""
    if not nccl:
        return (1,), "this torch has no NCCL"
    if gpus > 1:
        return (1, min(gpus, _MOST)), f"{gpus} GPUs are visible"
    if nccl[:2] >= _SHARES_A_GPU:
        return (1, 2), "one GPU is visible, and NCCL lets two ranks share it"
    return (1,), f"one GPU is visible, and NCCL {'.'.join(map(str, nccl))} does not let two ranks share it (2.30 does)"
