"""Programs with a planted ordering bug: each must show, and the program without the bug must pass.

The bugs show as wrong results, made certain by holding the stream that has been forgotten.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest
import torch

from .conftest import Hold

COUNT = 1 << 18  # floats: 1 MB, large enough for a block of its own in torch's allocator


@pytest.fixture(autouse=True)
def clean_allocator(kernels: None) -> Iterator[None]:
    yield
    torch.cuda.synchronize()
    gc.collect()
    torch.cuda.empty_cache()


def consume_on_side_stream(hold: Hold, *, wait: bool) -> float:
    """A producer on one stream, a consumer on another. Returns what the consumer saw."""
    produce, consume = torch.cuda.Stream(), torch.cuda.Stream()
    x = torch.zeros(COUNT, device="cuda")
    y = torch.empty(COUNT, device="cuda")
    torch.cuda.synchronize()
    with hold(produce.cuda_stream):
        with torch.cuda.stream(produce):
            x.fill_(1)
        if wait:
            consume.wait_stream(produce)
        with torch.cuda.stream(consume):
            y.copy_(x)
        if not wait:
            consume.synchronize()
    torch.cuda.synchronize()
    return float(y.max().item())


def test_a_missing_wait_is_seen(hold: Hold) -> None:
    assert consume_on_side_stream(hold, wait=True) == 1
    assert consume_on_side_stream(hold, wait=False) == 0


def free_while_in_use(hold: Hold, *, record: bool) -> float:
    """A tensor is given to a side stream and freed; its memory is asked for again. Returns what the side stream saw."""
    side = torch.cuda.Stream()
    seen = torch.empty(COUNT, device="cuda")
    x = torch.full((COUNT,), 1.0, device="cuda")
    side.wait_stream(torch.cuda.current_stream())
    with hold(side.cuda_stream):
        with torch.cuda.stream(side):
            seen.copy_(x)
        if record:
            x.record_stream(side)
        address = x.data_ptr()
        del x
        again = torch.full((COUNT,), 99.0, device="cuda")
        assert (again.data_ptr() == address) is not record
        torch.cuda.current_stream().synchronize()
    torch.cuda.synchronize()
    return float(seen.max().item())


def test_a_missing_record_stream_is_seen(hold: Hold) -> None:
    assert free_while_in_use(hold, record=True) == 1
    assert free_while_in_use(hold, record=False) == 99


def overwrite_pinned_source(hold: Hold, *, wait: bool) -> float:
    """A pinned buffer is filled again while the copy from it is under way."""
    side = torch.cuda.Stream()
    pinned = torch.full((COUNT,), 1.0).pin_memory()
    x = torch.empty(COUNT, device="cuda")
    torch.cuda.synchronize()
    with hold(side.cuda_stream):
        with torch.cuda.stream(side):
            x.copy_(pinned, non_blocking=True)
        if not wait:
            pinned.fill_(2)
    if wait:
        side.synchronize()
        pinned.fill_(2)
    torch.cuda.synchronize()
    return float(x.max().item())


def test_a_pinned_buffer_reused_too_early_is_seen(hold: Hold) -> None:
    assert overwrite_pinned_source(hold, wait=True) == 1
    assert overwrite_pinned_source(hold, wait=False) == 2


def read_pinned_target(hold: Hold, *, wait: bool) -> float:
    """The result of a non-blocking copy to pinned memory is read on the host."""
    side = torch.cuda.Stream()
    x = torch.full((COUNT,), 3.0, device="cuda")
    pinned = torch.zeros(COUNT).pin_memory()
    torch.cuda.synchronize()
    with hold(side.cuda_stream):
        with torch.cuda.stream(side):
            pinned.copy_(x, non_blocking=True)
        early = float(pinned[0])
    side.synchronize()
    return float(pinned[0]) if wait else early


def test_a_pinned_result_read_too_early_is_seen(hold: Hold) -> None:
    assert read_pinned_target(hold, wait=True) == 3
    assert read_pinned_target(hold, wait=False) == 0
