"""Plays a schedule: real processes, and a coordinator, this one, who knows who is alive and tells the members with whom
to regroup, as a job's launcher would. Every survivor has to end with right results in a usable group, whatever happens.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from tests.multirank import _member_steps as member
from tests.multirank._errors import Caught
from tests.multirank._harness import Died, Ranks
from tests.multirank._members import Members

from . import steps
from .plan import Moment, Round, Schedule, Trouble, processes, room_for

if TYPE_CHECKING:
    from collections.abc import Iterable

_REGROUP_S = 5.0  # deadline of a try
_GRACE_S = 3.0  # what a loaded machine may add before an error is late
_TRIES = 4  # of a round: two members at most die in one, and then it must work
_EXPECTED = {"PeerFailure", "CollectiveTimeout", "CommunicatorRevoked", "CollectiveMismatch"}


class ScheduleFailed(AssertionError):
    """Says the seed, and all that was done up to the failure."""


def play(ranks: Ranks, schedule: Schedule) -> list[str]:
    """Returns the trace."""
    count = processes(schedule)
    with Members(ranks, count, timeout=120.0) as members:
        player = _Player(members, schedule, count)
        try:
            player.play()
        except BaseException as err:
            raise ScheduleFailed("\n".join([f"seed {schedule.seed}", *player.trace, f"then: {err!r}"])) from err
        return player.trace


class _Player:
    def __init__(self, members: Members, schedule: Schedule, count: int) -> None:
        self._members = members
        self._schedule = schedule
        self._group = list(range(schedule.world))
        self._spare = list(range(schedule.world, count))
        self.trace: list[str] = []

    def play(self) -> None:
        self._members.init(self._group)
        for round_ in self._schedule.rounds:
            self.trace.append(f"{round_}; group {self._group}")
            self._get_into_trouble(round_)
            self._regroup(round_)

    def _choose(self, number: int) -> int:
        return self._group[number % len(self._group)]

    def _get_into_trouble(self, round_: Round) -> None:
        dying = {self._choose(death.victim) for death in round_.deaths if death.moment is Moment.IN_OPERATION}
        dying = set(sorted(dying)[: len(self._group) - 1])
        if dying:
            self._die_in_operation(round_.operation, dying)
        elif len(self._group) > 1:
            self._make_trouble(round_)
        for death in round_.deaths:
            if death.moment is Moment.IDLE and len(self._group) > 1:
                self._kill(self._choose(death.victim))

    def _die_in_operation(self, operation: str, dying: set[int]) -> None:
        survivors = [one for one in self._group if one not in dying]
        self._members.order(survivors, steps.work_until_it_fails, operation, 20.0)
        self._members.order(dying, steps.work_and_die, operation, 3)
        for one in dying:
            self._died(one)
        for one, caught in self._members.answers(survivors).caught().items():
            self.trace.append(f"{one} in {operation}: {caught.kind} {caught.ranks}")
            assert caught.kind in _EXPECTED, caught

    def _make_trouble(self, round_: Round) -> None:
        first, *rest = self._group
        match round_.trouble:
            case Trouble.NONE:
                return
            case Trouble.IN_FLIGHT:
                self._members.ask(rest, steps.leave_in_flight, round_.operation).values()
            case Trouble.ABORTED:
                self._members.ask([first], steps.abort).values()
            case Trouble.TIMED_OUT:
                self._members.ask(rest, steps.time_out, 0.2).caught()
            case Trouble.MISMATCH:
                places = {one: (place + 1,) for place, one in enumerate(self._group)}
                self._members.order_each(steps.disagree, places)
                self._members.answers(self._group).caught()

    def _kill(self, victim: int) -> None:
        self._members.kill(victim)
        self._group.remove(victim)
        self.trace.append(f"{victim} killed")

    def _died(self, victim: int) -> None:
        answer = self._members.answers([victim]).of[victim]
        assert isinstance(answer, Died), answer
        if victim in self._group:
            self._group.remove(victim)
        self.trace.append(f"{victim} died")

    def _regroup(self, round_: Round) -> None:
        wanted = self._who_is_to_be_in(round_)
        doomed = self._doom(round_, wanted)
        for attempt in range(_TRIES):
            dice = random.Random(round_.order + attempt)
            dice.shuffle(wanted)
            answers = self._try(wanted, doomed, as_set=round_.order < 0)
            survivors = [one for one in wanted if one not in doomed]
            failed = {one: answer for one, answer in answers.items() if isinstance(answer, Caught)}
            if not failed and not doomed:
                break
            assert doomed, f"nobody died in this try, and it failed: {failed}"
            wanted, doomed = survivors, set()
            self._group = wanted
        else:
            raise AssertionError(f"not regrouped after {_TRIES} tries")
        self._group = self._by_rank(wanted)
        self._members.check(self._group)
        self._members.ask(self._group, steps.check_that_none_succeeded).values()
        self.trace.append(f"well: {self._group}")

    def _who_is_to_be_in(self, round_: Round) -> list[int]:
        wanted = list(self._group)
        if round_.leave is not None and len(wanted) > 1:
            left = wanted.pop(round_.leave % len(wanted))
            self.trace.append(f"{left} left out")
        newcomers = [self._spare.pop(0) for _ in range(room_for(len(wanted), round_.join)) if self._spare]
        if newcomers:
            self._members.newcomers(*newcomers)
            self.trace.append(f"{newcomers} come")
        return wanted + newcomers

    def _doom(self, round_: Round, wanted: list[int]) -> set[int]:
        """Those who will die in the first try, at a point of it; one at least survives."""
        doomed: dict[int, str] = {}
        for death in round_.deaths:
            if death.moment.is_in_regroup and len(doomed) + 1 < len(wanted):
                doomed[wanted[death.victim % len(wanted)]] = death.moment.value
        for one, point in doomed.items():
            self._members.ask([one], member.die_at, point).values()
            self.trace.append(f"{one} will die at {point}")
        return set(doomed)

    def _try(self, wanted: list[int], doomed: set[int], *, as_set: bool) -> dict[int, object]:
        self.trace.append(f"regroup {wanted}{' as a set' if as_set else ''}")
        self._members.order_regroup(wanted, as_set=as_set, timeout=_REGROUP_S)
        survivors = [one for one in wanted if one not in doomed]
        answers = self._members.answers(survivors).of
        for one, answer in answers.items():
            self._judge(one, answer)
        for one in doomed:
            self._end_of_doomed(one)
        return answers

    def _judge(self, one: int, answer: object) -> None:
        if not isinstance(answer, Caught):
            self.trace.append(f"{one}: {answer}")
            return
        self.trace.append(f"{one}: {answer.kind} {answer.ranks} after {answer.seconds():.3f} s")
        assert answer.kind in _EXPECTED, answer
        assert answer.seconds() < _REGROUP_S + _GRACE_S, answer

    def _end_of_doomed(self, one: int) -> None:
        """One that was to die later than another one never came to its point: it is ended here."""
        answer = self._members.answers([one]).of[one]
        if not isinstance(answer, Died):
            self._members.kill(one)
        self.trace.append(f"{one} is dead")

    def _by_rank(self, wanted: Iterable[int]) -> list[int]:
        places = self._members.ask(list(wanted), steps.rank).values()
        return sorted(places, key=lambda one: places[one])
