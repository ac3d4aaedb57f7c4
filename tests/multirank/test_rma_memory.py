"""What a window can be over, and what can be put and fetched: parameters of a model, arrays of other libraries, memory
of `rma.empty`; and the memory of another rank as a tensor.
"""

from __future__ import annotations

import gc
import pickle
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist

from pycomms import rma

from ._errors import catch, refused
from ._harness import Ranks

pytestmark = pytest.mark.nccl2_only("gloo has no windows")


def check_remote(rank: int, world: int) -> None:
    """Loads and stores of one rank are those of the other; the mapping outlives the window."""
    right, left = (rank + 1) % world, (rank - 1) % world
    win = rma.Window(torch.full((2, 3), float(rank)))
    there = win.remote(right)
    assert there.shape == (2, 3)
    assert there.tolist() == [[float(right)] * 3] * 2
    assert win.remote(rank) is win.local or torch.equal(win.remote(rank), win.local)
    dist.barrier()
    there[1, 2] = 100.0 + rank
    dist.barrier()
    assert float(win.local[1, 2]) == 100 + left
    win.close()
    local = win.local
    del win
    gc.collect()
    there[0, 0] = 7.0
    dist.barrier()
    assert float(local[0, 0]) == 7.0
    del local
    gc.collect()
    dist.barrier()  # the owner has let go of it
    there.fill_(1.0)
    assert float(there.sum()) == 6.0


@pytest.mark.parametrize("world", [1, 2, 3])
def test_memory_of_another_rank(ranks: Ranks, world: int) -> None:
    ranks.run(check_remote, world=world)


def check_shapes_of_remote(rank: int, world: int) -> None:
    """As many elements as here: the shape that is here. Otherwise one dimension."""
    with rma.Window(torch.zeros(2 * (rank % 2 + 1), 3, dtype=torch.int16)) as win:
        for peer in range(world):
            shape = win.remote(peer).shape
            assert shape == ((2 * (rank % 2 + 1), 3) if peer % 2 == rank % 2 else (6 * (peer % 2 + 1),))
            assert win.remote(peer).dtype is torch.int16
        refused("ValueError", f"peer is {world}", win.remote, world)
    refused("CommunicatorClosed", "the window is closed", win.remote, (rank + 1) % world)


def test_shapes_of_remote_memory(ranks: Ranks) -> None:
    ranks.run(check_shapes_of_remote, world=3)


def step(model: torch.nn.Module, inputs: torch.Tensor) -> None:
    """Of gradient descent; by hand, for torch.optim takes seconds to load."""
    model(inputs).sum().backward()
    with torch.no_grad():
        for parameter in model.parameters():
            assert parameter.grad is not None
            parameter.sub_(0.5 * parameter.grad)


def check_model(rank: int, world: int) -> None:
    """A window over a parameter: the model, its views, its gradient and its state dict all go on with it."""
    torch.manual_seed(rank)
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2))
    parameter = next(model.parameters())
    row, flat, state = parameter.data[2], parameter.detach().view(-1), model.state_dict()
    before = parameter.detach().clone()
    with rma.Window(parameter) as win:
        assert torch.equal(parameter, before)
        right = (rank + 1) % world
        fetched = torch.zeros(4, 4)
        win.get(fetched, right)
        win.fence()
        win.put(torch.full((4,), 9.0), right, win.local[2])
        win.fence()
        assert row.tolist() == [9.0] * 4
        assert flat[8:12].tolist() == [9.0] * 4
        assert state["0.weight"][2].tolist() == [9.0] * 4
        inputs = torch.ones(1, 4)
        linear = model[0](inputs).detach()
        assert torch.allclose(linear[0, 2], 36.0 + state["0.bias"][2])
        step(model, inputs)
        assert torch.equal(row, parameter.detach()[2])
        win.fence()
        assert torch.equal(win.remote(rank).detach(), parameter.detach())
        mine = parameter.detach().clone()
        win.fence()
        win.get(fetched, right)
        everyone: list[Any] = [None] * world
        dist.all_gather_object(everyone, mine)
        assert torch.equal(fetched, everyone[right])
        assert parameter.requires_grad
        assert not win.remote(right).requires_grad or right == rank
        win.put(parameter, rank)  # autograd does not hear of it
        win.fence()
    step(model, inputs)  # it lives on


@pytest.mark.parametrize("world", [1, 2])
def test_a_parameter_of_a_live_model(ranks: Ranks, world: int) -> None:
    ranks.run(check_model, world=world)


@dataclass
class Foreign:
    """An array of a library that torch does not know."""

    values: np.ndarray[Any, Any]

    @property
    def __array_interface__(self) -> dict[str, Any]:
        interface: dict[str, Any] = self.values.__array_interface__
        return interface


@dataclass
class Capsule:
    """One that has nothing but DLPack."""

    values: np.ndarray[Any, Any]

    def __dlpack__(self, **options: Any) -> Any:
        return self.values.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self.values.__dlpack_device__()


class OnGpu:
    """One of a GPU's memory; there is none here, so that making a tensor of it fails."""

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {"shape": (4,), "typestr": "<i8", "data": (0xDEAD0000, False), "version": 3}


def check_foreign_arrays(rank: int, world: int) -> None:
    with rma.Window(torch.zeros(8, dtype=torch.int64)) as win:
        for wrap in (np.asarray, Foreign, Capsule):
            win.local.zero_()
            numbers = np.arange(4) + 10
            win.put(wrap(numbers), rank, 2)
            assert win.local.tolist()[2:6] == numbers.tolist()
            fetched = np.zeros(4, dtype=np.int64)
            win.get(wrap(fetched), rank, 2)
            assert fetched.tolist() == numbers.tolist()
            strided = np.zeros((4, 3), dtype=np.int64)
            win.get(wrap(strided[:, 1]), rank, win.local[1:5])
            assert strided[:, 1].tolist() == [0, *numbers.tolist()[:3]]
            win.accumulate(wrap(numbers), rank, 2)
            old: Any = win.get_accumulate(wrap(numbers), rank, 2)
            assert old.tolist() == (numbers * 2).tolist()
            win.put_v([wrap(numbers), wrap(numbers[:2])], rank, [4, 0])
            win.get_v([wrap(fetched)], rank, [4])
            assert fetched.tolist() == numbers.tolist()
            assert win.local.tolist()[:2] == numbers.tolist()[:2]
        for wrong in ([1, 2], "text", None, object()):
            refused("TypeError", "src", win.put, wrong, rank)
            refused("TypeError", "dst", win.get, wrong, rank)
        refused("TypeError", "Double", win.put, np.zeros(2), rank)
        for call in (win.put, win.get, win.accumulate):
            assert refused("TypeError", "", call, OnGpu(), rank).seconds() < 10.0


def test_arrays_of_other_libraries(ranks: Ranks) -> None:
    ranks.run(check_foreign_arrays, world=1)


def check_private_memory(rank: int, world: int) -> None:
    """NumPy's own memory cannot be mapped: ranks of the same host reach it through its owner's service."""
    left, right = (rank - 1) % world, (rank + 1) % world
    array = np.zeros(50_000, dtype=np.int64)
    with rma.Window(array) as win:
        assert win.attr(right).reach == "served"
        win.put(np.full(40_000, rank + 1), right, 5, signal=2)
        win.wait_signal(left, 2)
        assert (array[5:40_005] == left + 1).all()
        assert not array[:5].any()
        got = np.empty(3, dtype=np.int64)
        win.fence()
        win.get(got, right, 40_003)
        assert got.tolist() == [rank + 1, rank + 1, 0]
        for _ in range(100):
            win.fetch_add(1, 0, 1)
            with win.lock(0):
                win.get(got[:1], 0)
                win.put(got[:1] + 1, 0)
        win.fence()
        if rank == 0:
            assert array[:2].tolist() == [100 * world] * 2
        refused("ValueError", "not inside", win.put, array, right, 1)
        refused("ValueError", "cannot be mapped", win.remote, right)
        fixed = np.ones(4, dtype=np.int64)
        fixed.flags.writeable = False
        refused("ValueError", "read-only", win.get, fixed, right)
        win.put(fixed, right, 100)
        win.fence()
        assert array[100:105].tolist() == [1] * 4 + [left + 1]
        refused("ValueError", "read-only", rma.Window, fixed)


@pytest.mark.parametrize("world", [2, 3])
def test_private_memory_is_served(ranks: Ranks, world: int) -> None:
    ranks.run(check_private_memory, world=world)


def check_other_memory(rank: int, world: int) -> None:
    """What gives the caller's tensors another memory does not concern the window, or what is queued."""
    right = (rank + 1) % world
    model = torch.nn.Linear(100, 100)
    parameter = torch.zeros(1 << 20)
    with rma.Window(model.weight) as weights, rma.Window(parameter) as win:
        local = weights.local
        model.half()
        parameter.data = torch.zeros(1)
        assert weights.local.dtype is torch.float32
        weights.put(torch.full((100,), rank + 1.0), right)
        weights.fence()
        assert weights.local.view(-1)[:100].tolist() == [(rank - 1) % world + 1.0] * 100
        assert local.data_ptr() == weights.local.data_ptr()
        source = torch.full((1 << 20,), 3.0)
        work: Any = win.put(source, right, async_op=True)
        source.data = torch.zeros(1)
        work.wait()
        win.fence()
        assert win.local.sum() == 3 << 20
        expanded = torch.zeros(1).expand(50_000)
        for is_async in (False, True):
            refused("ValueError", "in one place", win.get, expanded, right, async_op=is_async)


@pytest.mark.parametrize("world", [1, 2])
def test_tensors_that_get_another_memory(ranks: Ranks, world: int) -> None:
    ranks.run(check_other_memory, world=world)


def _accumulate(win: rma.Window) -> None:
    for _ in range(3):
        win.accumulate(torch.ones(1 << 22), 1)


def check_lazy_clone(rank: int, world: int) -> None:
    """What it shares its memory with is nobody's to write to."""
    original = torch.zeros(4)
    clone = torch._lazy_clone(original)
    with rma.Window(clone) as win:
        win.put(torch.ones(4), (rank + 1) % world)
        win.fence()
        assert clone.tolist() == [1.0] * 4
    assert original.tolist() == [0.0] * 4


@pytest.mark.parametrize("world", [1, 2])
def test_a_lazy_clone_gets_memory_of_its_own(ranks: Ranks, world: int) -> None:
    ranks.run(check_lazy_clone, world=world)


def check_freed(rank: int, world: int) -> None:
    """Who drops a window that others are at work in keeps its memory until they have left it."""
    for _ in range(5):
        array = np.zeros(1 << 22, dtype=np.float32)
        win = rma.Window(array)
        dist.barrier()
        if rank == 0:
            caught = catch(partial(_accumulate, win))
            assert caught is None or caught.kind in ("PeerFailure", "CommunicatorRevoked", "CommunicatorClosed"), caught
        del win, array
        dist.barrier()


def test_memory_is_kept_while_others_use_it(ranks: Ranks) -> None:
    ranks.run(check_freed, world=2)


def check_pickled(rank: int, world: int) -> None:
    with rma.Window(torch.zeros(1)) as win:
        for protocol in (0, 2, 5):
            refused("TypeError", "cannot be pickled", pickle.dumps, win, protocol)


def test_a_window_is_not_pickled(ranks: Ranks) -> None:
    ranks.run(check_pickled, world=1)


def check_empty(rank: int, world: int) -> None:
    left, right = (rank - 1) % world, (rank + 1) % world
    memory = rma.empty(3, 4, dtype=torch.int32)
    array = memory.numpy()
    assert memory.shape == (3, 4)
    assert not array.any()
    address = memory.data_ptr()
    for over in (memory, memory[1], memory.view(-1)[2:7]):
        with rma.Window(over) as win:
            assert win.local.data_ptr() == over.data_ptr()  # it has not moved
            assert win.attr(right).reach == ("mapped" if world > 1 else "self")
            win.put(torch.full((1,), rank + 1, dtype=torch.int32), right, 1, signal=0)
            win.wait_signal(left)
            assert int(over.view(-1)[1]) == left + 1
    assert memory.data_ptr() == address
    assert array[0, 1] == array[1, 1] == array[0, 3] == left + 1
    np.from_dlpack(memory)[2, 2] = 5
    assert int(memory[2, 2]) == 5
    assert rma.empty().shape == ()
    assert rma.empty(0, 3).shape == (0, 3)
    assert rma.empty((2, 3)).shape == rma.empty([2, 3]).shape == rma.empty(torch.Size([2, 3])).shape == (2, 3)
    assert rma.empty(()).shape == ()
    assert rma.empty(2).dtype is torch.get_default_dtype()
    with rma.Window(rma.empty(0)) as win:
        assert win.attr(rank).numel == 0
    refused("TypeError", "rma.empty", rma.empty, 3, group=_other_group())
    for size in (1.5, "3", (2, None)):
        refused("TypeError", "rma.empty: size is", rma.empty, size)
    for sizes in ((-1,), (-2, -3), (0, -1), (2**32, 2**32), (2**63,)):
        refused("ValueError", f"rma.empty: size is {sizes}, expected", rma.empty, *sizes)
    refused("TypeError", "rma.empty: dtype is 'float32'", rma.empty, 3, dtype="float32")
    dist.barrier()


def _other_group() -> Any:
    """A group of another backend."""
    return dist.new_group(backend="gloo")


@pytest.mark.parametrize("world", [1, 2, 3])
def test_memory_made_for_windows(ranks: Ranks, world: int) -> None:
    ranks.run(check_empty, world=world)


def check_bytes(rank: int, world: int) -> None:
    """A number of bytes instead of a tensor."""
    with rma.Window(np.int64(8)) as counted:
        assert counted.local.dtype is torch.uint8
        assert counted.local.shape == (8,)
    with rma.Window(1000 * rank, name="bytes") as win:
        assert win.local.dtype is torch.uint8
        assert win.local.shape == (1000 * rank,)
        assert win.attr(world - 1).nbytes == 1000 * (world - 1)
        win.put(torch.full((10,), 5, dtype=torch.uint8)[: 10 * (world - 1)], world - 1, 990 * (world - 1))
        assert repr(win) == f"Window('bytes', ({1000 * rank},), torch.uint8, rank {rank} of {world}, open)"
    assert repr(win) == f"Window('bytes', ({1000 * rank},), torch.uint8, rank {rank} of {world}, closed)"
    assert win.is_closed
    win.close()  # again: nothing
    with rma.Window(torch.zeros(2, 2)) as other:
        assert repr(other) == f"Window((2, 2), torch.float32, rank {rank} of {world}, open)"


@pytest.mark.parametrize("world", [1, 2])
def test_windows_of_bytes(ranks: Ranks, world: int) -> None:
    ranks.run(check_bytes, world=world)
