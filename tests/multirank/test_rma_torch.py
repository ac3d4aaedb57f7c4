"""torch's own interface to a window."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d

from ._errors import refused
from ._harness import Ranks

pytestmark = pytest.mark.nccl2_only("gloo has no windows")


def check_torchs_interface(rank: int, world: int, registers_later: bool) -> None:
    left, right = (rank - 1) % world, (rank + 1) % world
    memory = torch.zeros(6)
    if registers_later:
        window: Any = c10d._new_window()
        refused("ValueError", "tensor_register", window.signal, right, False)
        window.tensor_register(memory)
    else:
        window = c10d._new_window(memory)
    refused("ValueError", "it has a tensor already", window.tensor_register, memory)
    assert window.put(torch.full((2,), rank + 1.0), right, 3, False).is_completed()
    window.wait_signal(left, False)
    assert memory[2:].tolist() == [0.0, left + 1, left + 1, 0.0]
    work = window.put(torch.full((2,), rank + 11.0), right, 0, True)
    window.wait_signal(left, True).wait()
    work.wait()
    assert memory[:2].tolist() == [left + 11.0] * 2
    window.signal(right, True).wait()
    window.wait_signal(left, False)
    assert window.window._read_signal(left, 0) == 0
    there = window.map_remote_tensor(right)
    assert there[3:5].tolist() == [rank + 1.0] * 2
    assert "unified" in str(window.get_attr(right).access_type).lower()
    refused("ValueError", f"peer is {world}", window.put, torch.zeros(1), world, 0, False)
    dist.barrier()
    window.tensor_deregister()
    window.tensor_deregister()
    refused("ValueError", "tensor_register", window.put, torch.zeros(1), right, 0, False)
    window.tensor_register(memory)
    window.tensor_deregister()


@pytest.mark.needs_torch("2.14", "windows of torch itself")
@pytest.mark.parametrize("registers_later", [False, True])
@pytest.mark.parametrize("world", [2, 3])
def test_torchs_own_interface(ranks: Ranks, world: int, registers_later: bool) -> None:
    ranks.run(check_torchs_interface, registers_later, world=world)
