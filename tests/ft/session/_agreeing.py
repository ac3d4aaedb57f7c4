"""Members that ask each other something in each step, and die in the middle of it."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pycomms
from pycomms import ft
from pycomms.ft import agreement
from pycomms.ft.core.messages import MemberId
from pycomms.process_group._tables import backend_of

from ._job import PipeLink
from ._training import await_change, session_of

UNTIL = 5
ASKED = 3  # the step in which something happens


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What happens in the first attempt of step ASKED.

    Attributes:
        no: slots that say False.
        dies: (slot, round): before that round of the call; 4: behind the call, when the answer is told.
        loses: slots that do not hear how the last round has ended.
        holds: behind ASKED all wait until the test has let somebody in.
    """

    no: tuple[int, ...] = ()
    dies: tuple[int, int] | None = None
    loses: tuple[int, ...] = ()
    holds: bool = False


def ask(link: PipeLink, member: MemberId, slot: int, say: Callable[[str, Any], None], plan: Plan) -> None:
    """Says ("answer", (step, attempt, answer)) of each answer that it gets."""
    session = session_of(link, member, slot, timedelta(seconds=10))
    for step in session.steps(until=UNTIL):
        first = step.number == ASKED and step.attempt == 0
        if first:
            _count_rounds(session, slot, plan)
        with step:
            answer = step.agree(not (first and slot in plan.no))
            say("answer", (step.number, step.attempt, answer))
            if first and plan.dies == (slot, 4):
                os.kill(os.getpid(), signal.SIGKILL)
            step.commit()
        if plan.holds and step.number == ASKED and step.committed:
            say("holding", slot)
            await_change(session)


def _count_rounds(session: ft.Session, slot: int, plan: Plan) -> None:
    real, rounds = agreement.highest, 0

    def counted(group: Any, told: Sequence[int], timeout: timedelta) -> list[int]:
        nonlocal rounds
        rounds += 1
        number = 3 if rounds == 2 else rounds  # without a failure nobody tells whom it misses
        if plan.dies == (slot, number):
            os.kill(os.getpid(), signal.SIGKILL)
        found = real(group, told, timeout)
        if number == 3:
            agreement.highest = real
            if slot in plan.loses:
                backend_of(session.group, "test").abort()
                raise pycomms.CommunicatorClosed("the answer was lost")
        return found

    agreement.highest = counted
