"""Jobs of real processes whose coordinator is the test itself: `core.quorum` behind pipes, in one thread.

So what a session does can be tested without an agent and without a network, and a test can see every message.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import TYPE_CHECKING, Any

from pycomms.ft.core.messages import Died, Event, Evict, Form, MemberId, Notice, Progress
from pycomms.ft.core.quorum import Quorum
from pycomms.ft.core.rule import Rule
from pycomms.ft.core.timeouts import derive

if TYPE_CHECKING:
    from typing_extensions import Self

DEADLINE = 60.0  # s; of a whole job
# An optimizer imports torch._dynamo, which takes seconds: once here, and not in each member.
PRELOADED = [
    "torch._dynamo",
    "torch.distributed.fsdp",
    "pycomms.process_group._create",
    "pycomms.ft.checkpoints",
    "pycomms.ft.session",
    "tests.ft.session._training",
]
HOST = "here"


class PipeLink:
    """A member's end."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._lock = threading.Lock()
        self._closed, self._closer = os.pipe()  # receive() is to return at once

    def send(self, event: Event) -> None:
        with self._lock:
            self._connection.send(event)

    def receive(self, timeout: timedelta) -> Notice | None:
        if self._connection not in wait([self._connection, self._closed], timeout.total_seconds()):
            return None
        notice: Notice = self._connection.recv()
        return notice

    def close(self) -> None:
        os.write(self._closer, b"!")


@dataclass
class Said:
    """What a member tells the test beside its messages to the coordinator."""

    slot: int
    what: str
    value: Any


@dataclass
class _Member:
    process: BaseProcess
    connection: Connection
    member: MemberId
    slot: int
    is_gone: bool = False


Main = Callable[[PipeLink, MemberId, int, Callable[[str, Any], None], Any], None]


@dataclass
class Job:
    """Starts members, kills them, and starts others in their slots.

    Args:
        main: what a member runs: (link, member, slot, say, argument).
        argument: for all of them.
    """

    main: Main
    argument: Any
    slots: int
    min_ranks: int = 1
    deadline: timedelta = timedelta(seconds=60)  # the coordinator's: how long the first epoch waits for all
    said: list[Said] = field(default_factory=list)
    forms: list[Form] = field(default_factory=list)
    exits: dict[MemberId, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(PRELOADED)
        rule = Rule(min_ranks=self.min_ranks, max_ranks=self.slots, expected=self.slots, timeouts=derive(self.deadline))
        self._quorum = Quorum(rule, boot=int(time.time()))
        self._members: dict[MemberId, _Member] = {}
        self._count = 0

    def __enter__(self) -> Self:
        for slot in range(self.slots):
            self.start(slot)
        return self

    def __exit__(self, *_: object) -> None:
        for one in self._members.values():
            if one.process.is_alive():
                one.process.kill()
            one.process.join(10)
            one.connection.close()

    def start(self, slot: int) -> MemberId:
        """A process for a slot."""
        self._count += 1
        member = MemberId(HOST, f"m{self._count}")
        ours, theirs = self._context.Pipe()
        process = self._context.Process(
            target=_run, args=(self.main, theirs, member, slot, self.argument), name=f"slot{slot}", daemon=True
        )
        process.start()
        theirs.close()
        self._members[member] = _Member(process, ours, member, slot)
        return member

    def kill(self, slot: int) -> None:
        os.kill(self.of_slot(slot).process.pid or 0, signal.SIGKILL)

    def of_slot(self, slot: int) -> _Member:
        return next(one for one in self._members.values() if one.slot == slot and not one.is_gone)

    def run_until(self, condition: Callable[[], bool]) -> None:
        """Moves messages until it is so, or no member is left."""
        deadline = time.monotonic() + DEADLINE
        while not condition():
            if not self._step(deadline):
                return
            if time.monotonic() > deadline:
                raise TimeoutError(f"the job did not come so far in {DEADLINE:.0f} s; heard {self.said[-10:]}")

    def run(self) -> None:
        """Until all have ended."""
        self.run_until(lambda: False)

    def heard(self, what: str, slot: int | None = None) -> list[Any]:
        return [one.value for one in self.said if one.what == what and slot in (None, one.slot)]

    def has_heard(self, what: str, times: int) -> Callable[[], bool]:
        return lambda: len(self.heard(what)) >= times

    def _step(self, deadline: float) -> bool:
        living = [one for one in self._members.values() if not one.is_gone]
        if not living:
            return False
        due = self._quorum.next_deadline()
        now = time.monotonic()
        pause = min(deadline, due if due is not None else deadline) - now
        ends: dict[Any, _Member] = {one.connection: one for one in living}
        ends.update({one.process.sentinel: one for one in living})
        for end in wait(list(ends), max(0.0, pause)):
            one = ends[end]
            if end is one.connection:
                self._hear(one)
            elif not one.is_gone:
                self._bury(one)
        self._deliver(self._quorum.tick(time.monotonic()))
        return True

    def _hear(self, one: _Member) -> None:
        try:
            message = one.connection.recv()
        except (EOFError, ConnectionResetError):
            one.process.join(DEADLINE)
            if not one.is_gone:
                self._bury(one)
            return
        if isinstance(message, tuple) and message[0] == "said":
            self.said.append(Said(one.slot, message[1], message[2]))
            return
        assert not isinstance(message, Progress) or message.steps_per_second >= 0
        self._deliver(self._quorum.apply(time.monotonic(), message))

    def _bury(self, one: _Member) -> None:
        while one.connection.poll():  # its last words
            try:
                message = one.connection.recv()
            except (EOFError, ConnectionResetError):
                break
            if isinstance(message, tuple) and message[0] == "said":
                self.said.append(Said(one.slot, message[1], message[2]))
            else:
                self._deliver(self._quorum.apply(time.monotonic(), message))
        one.is_gone = True
        one.process.join(DEADLINE)
        code = one.process.exitcode or 0
        self.exits[one.member] = code
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        self._deliver(self._quorum.apply(time.monotonic(), Died(member=one.member, how=how)))

    def _deliver(self, outgoing: list[Any]) -> None:
        for each in outgoing:
            if isinstance(each.notice, Evict):
                one = self._members[each.notice.member]
                if one.process.is_alive():
                    one.process.kill()
                continue
            if isinstance(each.notice, Form) and (not self.forms or self.forms[-1].epoch != each.notice.epoch):
                self.forms.append(each.notice)
            one = self._members[each.to]
            if not one.is_gone:
                try:
                    one.connection.send(each.notice)
                except OSError:
                    continue  # it has just died: its sentinel says so


def steps_of(job: Job) -> dict[int, dict[int, Any]]:
    """(world, losses, samples) by step, or round, and slot, of those that were committed."""
    found: dict[int, dict[int, Any]] = {}
    for one in job.said:
        if one.what == "step":
            step, *rest = one.value
            assert one.slot not in found.get(step, {}), f"slot {one.slot} has committed step {step} twice"
            found.setdefault(step, {})[one.slot] = tuple(rest)
    return found


def _run(main: Main, connection: Connection, member: MemberId, slot: int, argument: Any) -> None:
    link = PipeLink(connection)

    def say(what: str, value: Any = None) -> None:
        with link._lock:
            connection.send(("said", what, value))

    main(link, member, slot, say, argument)
