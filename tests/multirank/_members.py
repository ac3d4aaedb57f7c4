"""Jobs whose membership changes: processes that do, step by step, what the test says, and a test that hears what became
of each step on each. Handles and uuids go through the test, as they would through a job's coordinator: without a store.

`Members` is for the test; the functions that it is asked to run on the processes are in `_member_steps`.
"""

from __future__ import annotations

import itertools
import signal
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from typing_extensions import Self

from . import _member_steps as steps
from ._errors import Caught
from ._harness import Died, Failed, Ranks
from ._harness.job import reference_to

ANSWER_S = 30.0
REGROUP_S = 10.0


@dataclass(frozen=True)
class Answers:
    """What became of one step, by process."""

    of: dict[int, Any]

    def values(self) -> dict[int, Any]:
        """What all returned. Raises if one did not return."""
        bad = {number: one for number, one in self.of.items() if not isinstance(one, steps.Returned)}
        assert not bad, bad
        return {number: one.value for number, one in self.of.items()}

    def caught(self) -> dict[int, Caught]:
        """What all raised. Raises if one did not raise."""
        others = {number: one for number, one in self.of.items() if not isinstance(one, Caught)}
        assert not others, others
        return dict(self.of)


class Members:
    """`count` processes, numbered from 0. Use it in a `with` statement: it ends them all, whatever happens."""

    def __init__(
        self, ranks: Ranks, count: int, *, timeout: float = 90.0, env: Mapping[str, str] | None = None
    ) -> None:
        self._run = ranks.start(steps.follow, world=count, init=False, fresh=True, timeout=timeout, env=env)
        self._count = count
        self._dead: set[int] = set()
        self._uuids = itertools.count(1000)

    def order(self, who: Iterable[int], step: Callable[..., Any], *args: Any) -> None:
        """Has all run `step`; `answers` says what came of it. The same arguments for all."""
        for number in who:
            self._run.send(number, steps.Step(reference_to(step), args))

    def order_each(self, step: Callable[..., Any], args: dict[int, tuple[Any, ...]]) -> None:
        """As `order`, with arguments of its own for each process."""
        for number, own in args.items():
            self._run.send(number, steps.Step(reference_to(step), own))

    def answers(self, who: Iterable[int], timeout: float = ANSWER_S) -> Answers:
        return Answers({number: self._answer(number, timeout) for number in who})

    def ask(self, who: Sequence[int], step: Callable[..., Any], *args: Any, timeout: float = ANSWER_S) -> Answers:
        self.order(who, step, *args)
        return self.answers(who, timeout)

    def kill(self, *who: int) -> None:
        for number in who:
            self._run.signal(number, signal.SIGKILL)
            assert isinstance(self._answer(number, ANSWER_S), Died)

    def signal(self, number: int, signal_number: int) -> None:
        self._run.signal(number, signal_number)

    def await_state(self, number: int, state: str) -> None:
        self._run.await_state(number, state)

    def init(self, who: Sequence[int], name: str = "world", timeout: float = 20.0) -> None:
        """One group over `who`, made as usual, with a store of its own. Its ranks are the positions in `who`."""
        places = {number: (name, rank, len(who), timeout) for rank, number in enumerate(who)}
        self.order_each(steps.init_over_store, places)
        self.answers(who).values()

    def newcomers(self, *who: int) -> None:
        self.ask(who, steps.init_alone).values()

    def handles(self, who: Sequence[int]) -> list[str]:
        return list(self.ask(who, steps.handle).values().values())

    def uuid(self) -> int:
        return next(self._uuids)

    def order_regroup(
        self, who: Sequence[int], *, uuid: int | None = None, as_set: bool = False, timeout: float = REGROUP_S
    ) -> None:
        """Exchanges handles and has `who` regroup, in that order of ranks."""
        handles = self.handles(who)
        chosen = set(handles) if as_set else handles
        self.order(who, steps.regroup, self.uuid() if uuid is None else uuid, chosen, timeout)

    def regroup(self, who: Sequence[int], **options: Any) -> Answers:
        self.order_regroup(who, **options)
        return self.answers(who)

    def regrouped(self, who: Sequence[int], **options: Any) -> None:
        """Regroups; all has to be well afterwards."""
        places = self.regroup(who, **options).values()
        assert [(place.rank, place.size) for place in places.values()] == [(r, len(who)) for r in range(len(who))]
        self.check(who)

    def check(self, who: Sequence[int], *, is_new: bool = True) -> None:
        """`who` are one group, in this order, in which everything works. New: it has done nothing yet."""
        self.order_each(steps.check_group, {number: (rank, len(who), is_new) for rank, number in enumerate(who)})
        self.answers(who).values()

    def _answer(self, number: int, timeout: float) -> Any:
        answer = self._run.answer(number, timeout)
        if isinstance(answer, Died):
            self._dead.add(number)
        if isinstance(answer, Failed):
            raise AssertionError(f"process {number} {answer.describe()}")
        return answer

    def __enter__(self) -> Self:
        self._run.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                for number in range(self._count):
                    self._run.send(number, None)
                self._run.finish(died=self._dead)
        finally:
            self._run.__exit__(kind, error, trace)
