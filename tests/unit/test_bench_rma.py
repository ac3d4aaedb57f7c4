"""The benchmark of windows: who calls, what is checked, who takes part."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench.__main__ import parse_arguments
from bench.contestants import CONTESTANTS, Setting, Unavailable
from bench.ranks.one_sided import ONE_SIDED_OPERATIONS, ORIGIN, TABLE, TARGET
from pycomms.bench.plan import ONE_SIDED, TWO_SIDED, Op, Timing, cases
from pycomms.bench.protocol import RELEASE, Command, Reply
from pycomms.bench.ranks.loop import Rank
from pycomms.bench.ranks.operations import Operation


class Memory:
    """A window in which the target's memory is also the origin's: both halves can be looked at in one process."""

    def __init__(self, nbytes: int) -> None:
        self.local = np.zeros(nbytes // 8, dtype=np.int64)
        self.events: list[str] = []
        self.lost = False  # whether operations have no effect

    def buffer(self, count: int) -> Any:
        return np.zeros(count, dtype=np.int64)

    def put(self, data: Any) -> Callable[[], Any]:
        return lambda: self._do(lambda: self.local.__setitem__(slice(None), data))

    def get(self, data: Any) -> Callable[[], Any]:
        return lambda: self._do(lambda: data.__setitem__(slice(None), self.local))

    def fetch_add(self, value: int) -> Callable[[], Any]:
        def add() -> int:
            self.local[0] += value
            return int(self.local[0]) - value

        return lambda: self._do(add)

    def compare_swap(self, expected: int, desired: int) -> Callable[[], Any]:
        return lambda: self._do(lambda: int(self.local[0]))

    def old(self, returned: Any) -> int:
        return -1 if returned is None else int(returned)

    def copy(self, data: Any) -> Callable[[], Any]:
        return self.put(data)

    def rest(self) -> Callable[[], Any]:
        return lambda: self.events.append("rest")

    def meet(self) -> None:
        self.events.append("meet")

    def close(self) -> None:
        self.events.append("close")

    def _do(self, change: Callable[[], Any]) -> Any:
        self.events.append("call")
        return None if self.lost else change()


class End:
    world = 2

    def __init__(self, rank: int) -> None:
        self.rank = rank
        self.made: list[Memory] = []

    def window(self, nbytes: int) -> Memory:
        self.made.append(Memory(nbytes))
        return self.made[-1]


def prepared(op: Op, rank: int) -> tuple[Operation, Memory]:
    end = End(rank)
    operation = ONE_SIDED_OPERATIONS[op](end, 64)
    return operation, end.made[0]


@pytest.mark.parametrize("op", ONE_SIDED)
def test_an_operation_is_right_when_it_did_what_it_says(op: Op) -> None:
    operation, _ = prepared(op, ORIGIN)
    assert operation.verify()


@pytest.mark.parametrize("op", [Op.RMA_GET, Op.RMA_FETCH_ADD, Op.RMA_COMPARE_SWAP])
def test_the_origin_notices_what_was_lost(op: Op) -> None:
    operation, memory = prepared(op, ORIGIN)
    memory.lost = True
    assert not operation.verify()


@pytest.mark.parametrize("op", [Op.RMA_PUT, Op.RMA_FETCH_ADD, Op.RMA_COPY])
def test_the_target_notices_what_was_lost(op: Op) -> None:
    operation, memory = prepared(op, TARGET)
    assert not operation.verify()  # nobody has put anything
    assert "call" not in memory.events


def test_the_target_rests_while_the_origin_is_timed() -> None:
    timing = Timing(warmup=1, samples=3, inner=2)
    ends: list[Any] = [End(ORIGIN), End(TARGET)]  # which can do nothing else
    ranks = [Rank(end, TABLE, verify=False) for end in ends]
    prepare = Command.prepare(cases((Op.RMA_PUT,), (64,), 2)[0])
    assert [rank.answer(prepare) for rank in ranks] == [Reply(), Reply()]
    for end in ends:
        end.made[0].events.clear()
    replies = [rank.answer(Command.run(timing)) for rank in ranks]
    for rank in ranks:
        rank.answer(RELEASE)
    assert ends[ORIGIN].made[0].events == ["call"] * 7 + ["rest", "close"]
    assert ends[TARGET].made[0].events == ["rest", "close"]
    assert replies[TARGET] == Reply(series={"": [0.0] * 3})
    assert len(replies[ORIGIN].series[""]) == 3


def test_copying_is_measured_beside_a_plain_copy() -> None:
    operation, _ = prepared(Op.RMA_COPY, ORIGIN)
    assert list(operation.beside) == ["plain copy_"]


def test_sockets_are_for_hosts(tmp_path: Path) -> None:
    (sockets,) = [contestant for contestant in CONTESTANTS if contestant.name == "sockets"]
    with pytest.raises(Unavailable, match="between hosts"):
        sockets.launches(Setting(cache=tmp_path, socket=tmp_path / "hub", world=2, cores=""))


def test_each_command_has_its_operations() -> None:
    assert set(ONE_SIDED) | set(TWO_SIDED) == set(Op)
    rma, run = parse_arguments(["rma"]), parse_arguments(["run"])
    assert (rma.ops, rma.ranks) == (ONE_SIDED, (2,))
    assert run.ops == TWO_SIDED
    takes_part = {contestant.name for contestant in CONTESTANTS if contestant.supports(Op.RMA_PUT, 2)}
    assert takes_part == {"nccl2", "mpich", "openmpi", "impi", "sockets"}
