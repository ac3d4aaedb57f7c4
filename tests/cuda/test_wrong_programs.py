"""Programs with a planted ordering bug, on our backend: each gives wrong numbers, and without the bug it does not.

Rank 0 holds its current stream, so that a first operation, and with it all that follow, gets stuck on both ranks; rank
1 meanwhile does what it may not do before they have ended. So the wrong order is certain, not likely. For bugs within
the backend the emulator leaves out the calls that order two streams.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
import torch
import torch.distributed as dist

from tests.cuda_emulator import Emulator
from tests.multirank._harness import Ranks, context
from tests.multirank._ops import MOVING, OPERATIONS, REDUCING, Case, Result

from ._staged import Staged, expected_results, wrong

_SEED = 5
_COUNT = 1000
# Without a Work; and isend_irecv, see nccl_can_move.
_OPERATIONS = [op for op in (*MOVING, *REDUCING) if op not in ("barrier", "send_recv", "isend_irecv")]


def _emulator() -> Emulator:
    from ._preload import emulator  # on a rank only

    return emulator


class Scene:
    """An operation that has run once, with new inputs in its tensors, and what it should give."""

    def __init__(self, rank: int, world: int, op: str, root: int) -> None:
        counts = tuple(_COUNT + 5 * r for r in range(world)) if op.endswith("_uneven") else (_COUNT,)
        reduction = "SUM" if op in REDUCING else ""
        case = Case(op=op, dtype=torch.float32, reduction=reduction, counts=counts, root=root, is_async=True)
        self.rank = rank
        self.site = Staged(case, rank, world, device="cuda")
        self.site.run()
        self.expected = expected_results(self.site, _SEED)
        self.site.refill(_SEED)
        self.results: list[Result] = []
        torch.cuda.synchronize()

    def issue(self) -> None:
        self.site.begin_pass()
        self.results = OPERATIONS[self.site.case.op](self.site)

    def wait(self) -> None:
        self.site.wait()

    def copies(self) -> list[Result]:
        """What is in the outputs when the current stream gets to it."""
        return [replace(result, actual=result.actual.clone()) for result in self.results]

    def errors(self, seen: list[Result]) -> list[str]:
        return wrong(seen, self.expected)

    @contextmanager
    def held_back(self) -> Iterator[None]:
        """What is issued in the block does not begin before rank 1 has left the block."""
        token = torch.ones(1, device="cuda")
        torch.cuda.synchronize()
        if self.rank == 0:
            with _emulator().held(torch.cuda.current_stream()):
                self.site.pending.append(dist.all_reduce(token, async_op=True))
                yield
                context().await_signpost("go on")
        else:
            self.site.pending.append(dist.all_reduce(token, async_op=True))
            yield
            context().signpost("go on")


# --- what a program may not do. Each returns what was wrong.


def read_on_current_stream(scene: Scene, right: bool) -> list[str]:
    with scene.held_back():
        scene.issue()
        if right:
            scene.wait()
        seen = scene.copies()
        _let_run(scene, right)
    scene.wait()
    return scene.errors(seen)


def read_on_side_stream(scene: Scene, right: bool) -> list[str]:
    """The Work was waited for on another stream."""
    side = torch.cuda.Stream()
    with scene.held_back():
        scene.issue()
        scene.wait()
        if right:
            side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            seen = scene.copies()
            _let_run(scene, right)
    torch.cuda.synchronize()
    return scene.errors(seen)


def write_the_input(scene: Scene, right: bool) -> list[str]:
    seen: list[Result] = []
    with scene.held_back():
        scene.issue()
        if right:
            scene.wait()
            seen = scene.copies()  # the input may be the output, too
        if scene.rank == 1:
            for tensor, _ in scene.site.inputs_made:
                tensor.fill_(2.0)
        _let_run(scene, right)
    scene.wait()
    return scene.errors(seen if right else scene.copies())


def _let_run(scene: Scene, right: bool) -> None:
    """What rank 1 did wrong is done before rank 0 goes on. What is right waits for rank 0, on the stream."""
    if scene.rank == 1 and not right:
        torch.cuda.current_stream().synchronize()


# --- bugs within the backend


@contextmanager
def _streams_not_ordered(right: bool) -> Iterator[None]:
    if right:
        yield
        return
    _emulator().leave_out("cudaStreamWaitEvent", times=1000)
    yield
    _emulator().heal()


def backend_ignores_the_current_stream(scene: Scene, right: bool) -> list[str]:
    """The operation does not wait for the kernels that write its input."""
    fresh = [tensor.clone() for tensor, _ in scene.site.inputs_made]
    for tensor, _ in scene.site.inputs_made:
        tensor.fill_(3.0)
    torch.cuda.synchronize()
    with _emulator().held(torch.cuda.current_stream()):
        for (tensor, _), value in zip(scene.site.inputs_made, fresh, strict=True):
            tensor.copy_(value)
        with _streams_not_ordered(right):
            scene.issue()
        context().signpost(f"issued {scene.rank}")
        context().await_signpost(f"issued {1 - scene.rank}")
        if not right:
            _until_it_has_passed(scene)
            seen = [replace(result, actual=_bytes_of(result.actual)) for result in scene.results]
    scene.wait()
    return scene.errors(scene.copies() if right else seen)


def _until_it_has_passed(scene: Scene) -> None:
    """The streams of the group are not held."""
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for work in scene.site.pending:
            work.wait()
        side.synchronize()


def _bytes_of(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.numel() == 0:
        return tensor
    size = tensor.numel() * tensor.element_size()
    return torch.frombuffer(bytearray(_emulator().bytes_at(tensor.data_ptr(), size)), dtype=tensor.dtype)


def backend_does_not_order_the_waiter(scene: Scene, right: bool) -> list[str]:
    with scene.held_back():
        scene.issue()
        with _streams_not_ordered(right):
            scene.wait()
        seen = scene.copies()
        _let_run(scene, right)
    torch.cuda.synchronize()
    return scene.errors(seen)


# --- the tests

_Program = Callable[[Scene, bool], list[str]]
# The rank that is root of operations that move data away from it, and to it: so that rank 1's mistake matters.
_ROOTS: dict[_Program, tuple[int, int]] = {
    read_on_current_stream: (0, 1),
    read_on_side_stream: (0, 1),
    write_the_input: (1, 0),
    backend_ignores_the_current_stream: (0, 0),
    backend_does_not_order_the_waiter: (0, 1),
}


def play(rank: int, world: int, program: _Program, op: str, right: bool) -> list[str]:
    away, towards = _ROOTS[program]
    scene = Scene(rank, world, op, away if op in ("broadcast", "scatter") else towards)
    errors = program(scene, right)
    torch.cuda.synchronize()
    return errors


@pytest.mark.parametrize("op", _OPERATIONS)
@pytest.mark.parametrize("program", _ROOTS, ids=lambda program: program.__name__)
def test_is_caught(ranks: Ranks, program: _Program, op: str) -> None:
    for right in (True, False):
        errors = [found for errors in ranks.run(play, program, op, right, world=2) for found in errors]
        assert bool(errors) is not right, errors[:3]
