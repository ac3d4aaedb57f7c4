"""This process as the controller knows it: where it is, and which faults wait for it there."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from . import _acts, _environment
from ._errors import NotPossibleError
from ._line import Line
from ._operation import Operation
from ._watch import Watch

_INSIDE_S = 0.001


class Worker:
    """One per process. Its methods are called by whichever thread of the program comes to something."""

    def __init__(self, door: Path) -> None:
        self._door = door
        self._line: Line | None = None
        self._connecting = threading.Lock()
        self._is_welcome = threading.Event()
        self._watches: list[Watch] = []
        self._late_s = 0.0
        self._late_until = 0.0
        self._pending: list[tuple[int, dict[str, Any]]] = []
        self._depth = threading.local()
        self._source = ""
        self._has_begun = False
        self.is_off = False
        self.rank = -1
        self.steps = 0
        """That the plan wants the job to take; 0: it does not say."""
        os.register_at_fork(after_in_child=self._forked)

    def _forked(self) -> None:
        """Children that a worker forks, such as data loaders, are not the worker."""
        if self._line is not None:
            self._line.close()
            self.is_off = True

    # What the program comes to.

    def step(self, number: int, source: str) -> None:
        """A step begins. The best source of those that a program has counts: "session" or "program"."""
        if not self.awake():
            return
        if source == "optimizer" and self._source not in ("", source):
            return
        self._source = source
        self.tell({"kind": "step", "step": number})
        for watch in self._watches:
            if watch.step(number):
                self._do(watch, f"step {number}")
        self._do_pending()

    def point(self, name: str, step: int, told: Mapping[str, object]) -> None:
        if not self.awake():
            return
        if name == "step":
            self.step(step, "session")
        else:
            self.tell({"kind": "point", "point": name, "step": step, **told})
        for watch in self._watches:
            if watch.point(name):
                self._do(watch, f"{name!r} of step {step}")

    def operation(self, name: str, call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Calls it, with what the plan does around it. Operations within an operation are not counted."""
        if getattr(self._depth, "is_inside", False) or not self.awake():
            return call(*args, **kwargs)
        self._depth.is_inside = True
        try:
            if not self._has_begun:
                self._has_begun = True
                self.tell({"kind": "operation", "op": name})
            operation = Operation(name, call, args, kwargs)
            due = [watch for watch in self._watches if watch.operation(name)]
            for watch in due:
                if watch.moment == "before":
                    self._do(watch, f"before {name}", operation)
                elif watch.moment == "inside":
                    timer = threading.Timer(_INSIDE_S, self._do, (watch, f"inside {name}"))
                    timer.daemon = True
                    timer.start()
            self._do_pending(operation)
            if time.monotonic() < self._late_until:
                time.sleep(self._late_s)
            result = operation.run()
            for watch in due:
                if watch.moment == "after":
                    self._do(watch, f"after {name}")
            return result
        finally:
            self._depth.is_inside = False

    def tell(self, event: dict[str, Any]) -> None:
        if self._line is not None:
            self._line.tell(event)

    def record(self, event: dict[str, Any]) -> None:
        """What the program itself wants to be in the log of the run."""
        if self.awake():
            self.tell(event)

    # The controller.

    def awake(self, rank: int | None = None) -> bool:
        """Whether this process is a worker of the job, and connected. rank: where no launcher has told it."""
        if self._line is not None or self.is_off:
            return not self.is_off
        told = _environment.rank()
        own = rank if told is None else told
        if own is None:
            return False
        with self._connecting:
            if self._line is None and not self.is_off:
                self._connect(own)
        return not self.is_off

    def _connect(self, rank: int) -> None:
        self.rank = rank
        hello = {
            "pid": os.getpid(),
            "rank": rank,
            "world": _environment.world(),
            "incarnation": _environment.attempt(),
        }
        try:
            self._line = Line(self._door, hello, self._ordered)
        except OSError:
            self.is_off = True
            return
        self.is_off = not self._is_welcome.wait(10.0)

    def _ordered(self, said: dict[str, Any]) -> None:
        """By the thread that reads."""
        if "welcome" in said:
            self._watches = [Watch(number, fault) for number, fault in said["welcome"]]
            self.steps = said["steps"]
            self._is_welcome.set()
        elif "act" in said:
            number, fault = said["act"]
            if _acts.needs_program(fault["kind"]):
                self._pending.append((number, fault))
            else:
                self._act(number, fault, None)

    def _do_pending(self, operation: Operation | None = None) -> None:
        """What was ordered by time, and has to happen in the program's own thread."""
        while self._pending:
            self._act(*self._pending.pop(), operation)

    def _do(self, watch: Watch, where: str, operation: Operation | None = None) -> None:
        """What the controller agrees to: it may have happened before, to a process that had this place."""
        watch.is_over = True
        answer = self._line.ask({"kind": "claim", "fault": watch.number, "where": where}) if self._line else {}
        if answer.get("again"):
            watch.is_over = False
        if answer.get("yes"):
            self._act(watch.number, {**watch.fault, "pids": answer.get("pids")}, operation)

    def _act(self, number: int, fault: dict[str, Any], operation: Operation | None) -> None:
        try:
            undo = _acts.carry_out(self, fault, operation)
        except NotPossibleError as error:
            self.tell({"kind": "not-injected", "fault": number, "why": str(error)})
            return
        seconds = fault.get("for", 0.0)
        if undo is not None and seconds:
            timer = threading.Timer(seconds, self._undo, (number, undo))
            timer.daemon = True
            timer.start()

    def _undo(self, number: int, undo: Callable[[], None]) -> None:
        """What was to be waited for may not have come."""
        try:
            with contextlib.suppress(OSError):
                undo()
        except NotPossibleError as error:
            self.tell({"kind": "not-injected", "fault": number, "why": str(error)})
        self.tell({"kind": "over", "fault": number})

    def be_late(self, delay: float, seconds: float) -> None:
        self._late_s = delay
        self._late_until = time.monotonic() + (seconds or 1e9)
