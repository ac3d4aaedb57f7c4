"""What becomes of a communicator that stays in progress for ever, on our backend and on torch's own, side by side.

    python -m tests.cuda.stuck [--deadline SECONDS] [--json FILE]

Rank 0's libnccl never gets anywhere: at init, at a split, in a collective. The groups have a timeout of three seconds.
Printed is what each rank met and after how long, and whether a new group of the same processes works afterwards. Every
case runs in processes of its own, which are killed at the deadline.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

# name -> (backend, environment). TORCH_NCCL_USE_COMM_NONBLOCKING is what their documentation offers against this.
BACKENDS: dict[str, tuple[str, dict[str, str]]] = {
    "ours": ("nccl2", {}),
    "torch's nccl2": ("builtin_nccl2", {}),
    "torch's nccl": ("nccl", {}),
    "torch's nccl, nonblocking": ("nccl", {"TORCH_NCCL_USE_COMM_NONBLOCKING": "1"}),
}
POINTS = ("init", "split", "operation")
_WORLD = 2
_GROUP_TIMEOUT_S = 3.0


@dataclass(frozen=True, kw_only=True)
class End:
    """How a case ended on a rank."""

    how: str  # raised, returned, hung or died
    seconds: float
    text: str = ""
    renewed: str = "no"  # whether a new group worked

    def __str__(self) -> str:
        after = f"> {self.seconds:.0f} s" if self.how == "hung" else f"{self.seconds:.1f} s"
        return f"{self.how} {after}; new group: {self.renewed}" + (f"; {self.text}" if self.text else "")


# --- on a rank


def play(rank: int, world: int, point: str) -> None:
    """Tells the parent "stuck" when it begins, then the error (a Caught, or None), then "works"."""
    import torch.distributed as dist

    import pycomms
    from tests.cuda_emulator.nccl import Point
    from tests.multirank._errors import catch
    from tests.multirank._harness import context

    from ._preload import nccl

    if context().backend == "builtin_nccl2":
        pycomms.builtin_nccl2()
    fault = {"init": Point.INIT, "split": Point.SPLIT, "operation": Point.OPERATION}[point]

    def block() -> None:
        if rank == 0:
            nccl.stay_in_progress(fault)
        context().tell("stuck")

    if point == "init":
        block()
    else:
        _begin("world")
        _sum(world)
        block()
    context().tell(catch(lambda: _call(point, world)))
    nccl.clear_faults()
    if dist.is_initialized():
        dist.distributed_c10d._abort_process_group()
    _begin("after")
    _sum(world)
    context().tell("works")


def _begin(name: str) -> None:
    import torch

    from tests.multirank._harness import context

    context().init(name, device_id=torch.device("cuda", 0))


def _sum(world: int, group: Any = None) -> None:
    import torch
    import torch.distributed as dist

    tensor = torch.ones(4, device="cuda")
    dist.all_reduce(tensor, group=group)
    assert tensor.tolist() == [float(world)] * 4


def _call(point: str, world: int) -> None:
    import torch
    import torch.distributed as dist

    if point == "init":
        _begin("world")
        _sum(world)
    elif point == "split":
        _sum(world, dist.split_group(split_ranks=[list(range(world))]))
    else:
        for _ in range(20):  # a later call tells what became of an earlier one
            dist.all_reduce(torch.ones(4, device="cuda"))
            torch.cuda.synchronize()


# --- the parent


def run_case(ranks: Any, name: str, point: str, deadline: float) -> list[End]:
    from tests.multirank._harness import RanksError

    backend, env = BACKENDS[name]
    options = {"timeout": deadline, "group_timeout": _GROUP_TIMEOUT_S, "init": False, "fresh": True}
    with ranks.start(play, point, world=_WORLD, backend=backend, env=env, **options) as run:
        for rank in range(_WORLD):
            assert run.told(rank) == "stuck"
        began = time.monotonic()
        outcomes: dict[int, Any] = {}
        try:
            run.finish()
        except RanksError as error:
            outcomes = error.outcomes
        ended = time.monotonic() - began
        return [_end(outcomes.get(rank), run.heard(rank), ended) for rank in range(_WORLD)]


def _end(outcome: Any, told: list[Any], ended: float) -> End:
    from tests.multirank._harness import Died, Failed

    if not told:  # still in the call
        if isinstance(outcome, Died):
            return End(how="died", seconds=ended, text=_last_line(outcome.describe()))
        return End(how="hung", seconds=ended)
    renewed = "works" if "works" in told else "no"
    if isinstance(outcome, Died | Failed):
        renewed = f"no: {_last_line(outcome.describe())}"
    caught = told[0]
    if caught is None:
        return End(how="returned", seconds=ended, renewed=renewed)
    text = f"{caught.kind}: {_short(caught.text)}"
    return End(how="raised", seconds=caught.seconds(), text=text, renewed=renewed)


def _short(text: str) -> str:
    return text.strip().splitlines()[0][:140] if text.strip() else ""


_TELLING = ("what():", "Error", "Aborting process")


def _last_line(text: str) -> str:
    """Of a log: the last line that tells why, or else how it begins."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    telling = [line.rpartition("] ")[2] for line in lines if any(word in line for word in _TELLING)]
    return (telling[-1] if telling else lines[0] if lines else "")[:140]


def main() -> int:
    from tests.multirank._harness import Pool, Ranks

    parser = argparse.ArgumentParser(prog="python -m tests.cuda.stuck", description=__doc__)
    parser.add_argument("--deadline", type=float, default=40.0, help="seconds until a case counts as hung")
    parser.add_argument("--only", nargs="*", default=list(BACKENDS), choices=list(BACKENDS))
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    pool = Pool(preload=["tests.cuda._preload"])
    found: list[dict[str, Any]] = []
    try:
        ranks = Ranks(pool, "nccl2")
        for point in POINTS:
            for name in options.only:
                for rank, end in enumerate(run_case(ranks, name, point, options.deadline)):
                    found.append({"point": point, "backend": name, "rank": rank, **asdict(end)})
                    print(f"{point:9} | {name:25} | rank {rank}: {end}", flush=True)
    finally:
        pool.close()
    if options.json:
        options.json.write_text(json.dumps(found, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
