"""Wrong arguments of a window's methods: errors name the method, the argument, what was given and what was expected."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist

from pycomms import rma

from ._errors import refused
from ._harness import Ranks

pytestmark = pytest.mark.nccl2_only("gloo has no windows")


def check_arguments(rank: int, world: int) -> None:
    with rma.Window(torch.zeros(8), slots=2) as win:
        for peer in (-1, world, 2**20):
            words = f"peer is {peer}, but the group has ranks 0 to {world - 1}"
            for moving in (win.put, win.get, win.accumulate, win.get_accumulate):
                refused("ValueError", words, moving, torch.zeros(1), peer)
            for many in (win.put_v, win.get_v):
                refused("ValueError", words, many, [torch.zeros(1)], peer, [0])
            for single in (win.fetch_add, win.swap):
                refused("ValueError", words, single, 1.0, peer)
            refused("ValueError", words, win.compare_swap, 0.0, 1.0, peer)
            for call in (win.flush, win.flush_local, win.signal, win.wait_signal, win.read_signal, win.lock):
                refused("ValueError", words, call, peer)
            refused("ValueError", words, win.remote, peer)
            refused("ValueError", words, win.attr, peer)
        for moving in (win.put, win.get, win.accumulate, win.get_accumulate):
            refused("TypeError", "Double", moving, torch.zeros(1, dtype=torch.float64), 0)
            refused("ValueError", "meta", moving, torch.zeros(1, device="meta"), 0)
            refused("ValueError", "not dense", moving, torch.zeros(3).to_sparse(), 0)
        for op in ("SUM", "avg", ""):
            refused("ValueError", f"op is '{op}'", win.accumulate, torch.zeros(1), 0, op=op)
        for many in (win.put_v, win.get_v):
            refused("TypeError", "Long", many, [torch.zeros(1), torch.zeros(1, dtype=torch.int64)], 0, [0, 1])
        refused("ValueError", "timeout", win.put, torch.zeros(1), 0, timeout=timedelta(seconds=-1))
        wrong: Any
        for wrong in ("1", 1.0):
            refused("TypeError", f"flush_local: peer is {wrong!r}, expected an integer", win.flush_local, wrong)
            for peers in (wrong, [wrong]):
                refused("TypeError", f"wait_signal: peers is {wrong!r}, expected an integer", win.wait_signal, peers)
        refused("TypeError", "get_accumulate: src: expected a tensor", win.get_accumulate, [1.0], 0)
        refused("TypeError", "which has no memory", win.get, np.float32(1.0), 0)
        assert not win.local.any()
        dist.barrier()


@pytest.mark.parametrize("world", [1, 3])
def test_wrong_arguments_are_named(ranks: Ranks, world: int) -> None:
    ranks.run(check_arguments, world=world)


def _methods(win: rma.Window) -> dict[str, Callable[..., Any]]:
    """All that take a peer, of which nothing else is wrong."""
    one = torch.zeros(1)
    return {
        "put": lambda peer, **more: win.put(one, peer, **more),
        "get": lambda peer, **more: win.get(one, peer, **more),
        "put_v": lambda peer, **more: win.put_v([one], peer, [0], **more),
        "get_v": lambda peer, **more: win.get_v([one], peer, [0], **more),
        "accumulate": lambda peer, **more: win.accumulate(one, peer, **more),
        "get_accumulate": lambda peer, **more: win.get_accumulate(one, peer, **more),
        "fetch_add": lambda peer, **more: win.fetch_add(1.0, peer, **more),
        "swap": lambda peer, **more: win.swap(1.0, peer, **more),
        "compare_swap": lambda peer, **more: win.compare_swap(0.0, 1.0, peer, **more),
        "flush": lambda peer, **more: win.flush(peer, **more),
        "signal": lambda peer, **more: win.signal(peer, **more),
        "lock": lambda peer, **more: win.lock(peer, **more).release(),
        "read_signal": lambda peer: win.read_signal(peer),
        "remote": lambda peer: win.remote(peer),
        "attr": lambda peer: win.attr(peer),
    }


def check_types(rank: int, world: int) -> None:
    wrong: Any
    with rma.Window(torch.zeros(8), slots=2) as win:
        methods = _methods(win)
        for name, call in methods.items():
            for wrong in ("1", 1.5, *([] if name == "flush" else [None])):
                refused("TypeError", f"{name}: peer is {wrong!r}, expected an integer", call, wrong)
            for wrong in (2, 2**31, 2**80, -(2**31) - 1):
                words = f"{name}: peer is {wrong}, but the group has ranks 0 to {world - 1}"
                refused("ValueError", words, call, wrong)
            call(np.int64(0))
            if name in ("read_signal", "remote", "attr"):
                continue
            words = f"{name}: timeout is 1.5, expected None or a timedelta of at least 0"
            refused("TypeError", words, call, 0, timeout=1.5)
            refused("ValueError", f"{name}: timeout is ", call, 0, timeout=timedelta(-1))
            if name not in ("fetch_add", "swap", "compare_swap", "lock"):
                refused("TypeError", f"{name}: async_op is 'x', expected a bool", call, 0, async_op="x")
        for name in ("put", "get", "accumulate", "get_accumulate", "fetch_add", "swap", "compare_swap"):
            for wrong in ("1", 1.5, None):
                refused(
                    "TypeError", f"{name}: offset is {wrong!r}, expected an integer", methods[name], 0, offset=wrong
                )
            refused("ValueError", f"{name}: offset is {2**63}, expected an", methods[name], 0, offset=2**63)
            refused("ValueError", f"{name}: offset is -1, expected 0 to", methods[name], 0, offset=-1)
            refused("ValueError", f"{name}: the window of rank 0: ", methods[name], 0, offset=8)
        for name in ("accumulate", "get_accumulate"):
            refused("TypeError", f"{name}: op is None, expected sum", methods[name], 0, op=None)
        refused("TypeError", "signal: op is None, expected add or set", win.signal, 0, op=None)
        refused("TypeError", "lock: shared is 'x', expected a bool", win.lock, 0, shared="x")
        dist.barrier()


def check_slots_and_counts(rank: int, world: int) -> None:
    wrong: Any
    one = torch.zeros(1)
    with rma.Window(torch.zeros(8), slots=2) as win:
        for name in ("put", "put_v"):
            call = _methods(win)[name]
            refused("TypeError", f"{name}: signal is '0', expected an integer", call, 0, signal="0")
            refused("ValueError", f"{name}: signal is {2**31}, but the window has slots 0 to 1", call, 0, signal=2**31)
        for method in (win.signal, win.wait_signal, win.read_signal):
            name = method.__name__
            for wrong in ("0", 1.5, None):
                refused("TypeError", f"{name}: slot is {wrong!r}, expected an integer", method, 0, wrong)
            refused("ValueError", f"{name}: slot is {2**31}, but the window has slots 0 to 1", method, 0, 2**31)
        for wrong in ("1", 1.5, None):
            refused("TypeError", f"wait_signal: count is {wrong!r}, expected an integer", win.wait_signal, 0, 0, wrong)
            refused("TypeError", f"signal: value is {wrong!r}, expected an integer", win.signal, 0, 0, wrong)
        refused("ValueError", f"wait_signal: count is {2**63}, expected", win.wait_signal, 0, 0, 2**63)
        refused("ValueError", f"wait_signal: peer is {2**31}, but the group has", win.wait_signal, [2**31])
        refused("TypeError", "put_v: srcs is None, expected a sequence of tensors", win.put_v, None, 0, [0])
        refused("TypeError", "get_v: dsts is None, expected a sequence of tensors", win.get_v, None, 0, [0])
        refused("TypeError", "put_v: offsets is 0, expected a sequence", win.put_v, [one], 0, 0)
        refused("TypeError", "put_v: srcs[1]: expected a tensor", win.put_v, [one, 3.0], 0, [0, 1])
        refused("TypeError", "get_v: offsets[1] is '1', expected an integer", win.get_v, [one, one], 0, [0, "1"])
        refused("ValueError", "get_v: offsets[1] is -1, expected 0 to", win.get_v, [one, one], 0, [0, -1])
        refused("ValueError", "put_v: srcs has 1 tensors, but offsets 2 places", win.put_v, [one], 0, [0, 1])
        refused("TypeError", "put_v: srcs[1] has dtype Long", win.put_v, [one, one.long()], 0, [0, 1])
        refused("ValueError", "get_v: dsts[1] has elements that lie", win.get_v, [one, one.expand(3)], 0, [0, 1])
        refused("ValueError", "put_v: the window of rank 0: ", win.put_v, [one, one], 0, [0, 8])
        refused("ValueError", "put: src is not dense: its layout is Sparse", win.put, one.to_sparse(), 0)
        assert not win.local.any()
        dist.barrier()
    refused("ValueError", "memory is not dense: its layout is Sparse", rma.Window, torch.zeros(4).to_sparse())
    with rma.Window(torch.zeros(4, dtype=torch.bool)) as win:
        words = "elements of bool cannot be updated in one step, expected int32"
        refused("ValueError", words, win.accumulate, torch.zeros(1, dtype=torch.bool), 0)


@pytest.mark.parametrize("check", [check_types, check_slots_and_counts])
@pytest.mark.parametrize("world", [1, 2])
def test_an_argument_of_a_wrong_type_is_named(ranks: Ranks, world: int, check: Callable[[int, int], None]) -> None:
    ranks.run(check, world=world)
