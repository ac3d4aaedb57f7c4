"""A link that outlives its connections: one thread connects, reads, and connects again.

What is said while there is no connection waits. On each new one the member announces itself, then says again the last
thing that the coordinator has to know, for the old connection may have lost it.
"""

from __future__ import annotations

import logging
import os
import queue
import threading
import weakref
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

from pycomms.ft._line import Dialer, Line, LineEnded, LineRefused
from pycomms.ft.core.messages import (
    Announce,
    Event,
    Evict,
    Form,
    Leaving,
    MemberId,
    Notice,
    Progress,
    Ready,
    Settled,
    Teach,
)
from pycomms.ft.core.timeouts import Timeouts
from pycomms.ft.wire import (
    AnnounceAgain,
    FormDelta,
    Message,
    SendWhole,
    Welcome,
    WireError,
    decode,
    encode,
    whole,
)

_LOG = logging.getLogger("pycomms.ft")
_LINKS: weakref.WeakSet[SteadyLink] = weakref.WeakSet()
_FIRST_PAUSE = 0.001
_LEAVE_WITHIN = 2.0


class LinkClosed(Exception):
    """The link is closed, or belongs to the process that this one was forked off from."""


class LinkRefused(LinkClosed):
    """The coordinator has refused the connection, and will again: a wrong token, another version."""


class SteadyLink:
    def __init__(self, dialer: Dialer, member: MemberId, timeouts: Timeouts) -> None:
        self._dialer = dialer
        self._member = member
        self._longest_pause = timeouts.reconnect.total_seconds()
        self._lock = threading.Lock()  # all below
        self._line: Line | None = None
        self._unsaid: list[Event] = []
        self._announce: Callable[[], Announce] | None = None
        self._has_announced = False
        self._last: Ready | Settled | Leaving | None = None
        self._end: LinkClosed | None = None
        self._closing = threading.Event()
        self._callback: Callable[[Notice], None] | None = None
        self._notices: queue.SimpleQueue[Notice | None] = queue.SimpleQueue()  # None: look at self._end
        self._form: Form | None = None  # the link's thread alone
        _LINKS.add(self)
        self._thread = threading.Thread(target=self._run, name="pycomms-link", daemon=True)
        self._thread.start()

    def send(self, event: Event) -> None:
        data = encode(event)
        with self._lock:
            self._raise_if_ended()
            self._remember(event)
            if self._line is None:
                self._keep(event)
                return
            try:
                self._line.send(data)
                self._has_announced |= isinstance(event, Announce)
            except LineEnded:  # the thread notices by itself
                self._line = None
                self._keep(event)

    def receive(self, timeout: timedelta) -> Notice | None:
        if self._notices.empty():
            self._raise_if_ended()
        try:
            notice = self._notices.get(timeout=max(timeout.total_seconds(), 0.0))
        except queue.Empty:
            return None
        if notice is None:
            self._notices.put(None)  # for whoever else waits
            self._raise_if_ended()
        return notice

    def on_notice(self, callback: Callable[[Notice], None]) -> None:
        self._callback = callback

    def on_reconnect(self, announce: Callable[[], Announce]) -> None:
        with self._lock:
            self._announce = announce

    def close(self) -> None:
        if not self._finish(LinkClosed(f"the link of {self._member.host}/{self._member.nonce} is closed")):
            return
        if threading.current_thread() is not self._thread:
            self._thread.join(_LEAVE_WITHIN)

    def forked(self) -> None:
        """In the child: its link is no link."""
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._notices = queue.SimpleQueue()
        line, self._line = self._line, None
        if self._end is None:
            self._end = LinkClosed(f"process {os.getpid()} was forked off: its parent alone has the link")
        if line is not None:
            line.forked()

    def _raise_if_ended(self) -> None:
        if self._end is not None:
            raise type(self._end)(*self._end.args)

    def _finish(self, end: LinkClosed) -> bool:
        with self._lock:
            if self._end is not None:
                return False
            self._end = end
            line, self._line = self._line, None
        self._closing.set()
        self._notices.put(None)
        self._dialer.interrupt()
        if line is not None:
            line.close()
        return True

    def _run(self) -> None:
        pause = _FIRST_PAUSE
        has_been_welcome = False
        while not self._closing.is_set():
            try:
                line = self._dialer.dial()
            except LineRefused as error:
                if not has_been_welcome:
                    self._finish(LinkRefused(str(error)))
                    return
                _LOG.warning("pycomms.ft: %s; trying again", error)
            except LineEnded as error:
                _LOG.debug("pycomms.ft: %s; trying again", error)
            else:
                has_been_welcome = True
                pause = _FIRST_PAUSE
                self._use(line)
            self._closing.wait(pause)
            pause = min(2 * pause, self._longest_pause)

    def _use(self, line: Line) -> None:
        try:
            self._begin(line)
            while True:
                for data in line.receive():
                    self._hear(decode(data).message)
        except LineEnded as error:
            _LOG.debug("pycomms.ft: connection lost: %s", error)
        except WireError as error:
            _LOG.warning("pycomms.ft: the coordinator says what makes no sense: %s", error)
        with self._lock:
            if self._line is line:
                self._line = None
        line.drop()

    def _begin(self, line: Line) -> None:
        announce = self._announcement(with_seats=False)
        with self._lock:
            if self._end is not None:
                raise LineEnded("closed")
            unsaid = [event for event in self._unsaid if announce is None or not isinstance(event, Announce)]
            again: list[Event] = [announce] if announce else []
            if self._last is not None and self._last not in unsaid:
                again.append(self._last)
            for event in (*again, *unsaid):
                line.send(encode(event))
                self._has_announced |= isinstance(event, Announce)
            self._unsaid.clear()
            self._line = line

    def _announcement(self, *, with_seats: bool) -> Announce | None:
        """None: the member has not announced itself yet, or what it has announced waits to be said."""
        with self._lock:
            announce = self._announce if self._has_announced else None
        if announce is None:
            return None
        told = announce()
        return told if with_seats else replace(told, seats=())

    def _hear(self, message: Message) -> None:
        if isinstance(message, FormDelta):
            form = whole(self._form, message)
            if form is None:
                self._say(SendWhole(member=self._member, epoch=message.epoch))
                return
            message = form
        if isinstance(message, AnnounceAgain):
            self._repeat(with_seats=message.with_seats)
        elif isinstance(message, Teach):
            self._repeat(with_seats=True)
        elif isinstance(message, Evict):
            self._dialer.obey(message)
        elif isinstance(message, Form):
            self._form = message
            with self._lock:
                if isinstance(self._last, (Ready, Settled)) and message.epoch > self._last.epoch:
                    self._last = None
            self._deliver(message)
        elif isinstance(message, Notice):
            self._deliver(message)
        elif not isinstance(message, Welcome):
            raise WireError("message", type(message).__name__, "a notice")

    def _deliver(self, notice: Notice) -> None:
        if self._callback is None:
            self._notices.put(notice)
        else:
            self._callback(notice)

    def _repeat(self, *, with_seats: bool) -> None:
        announce = self._announcement(with_seats=with_seats)
        with self._lock:
            last = self._last
        for event in (announce, last):
            if event is not None:
                self._say(event)

    def _say(self, message: Message) -> None:
        with self._lock:
            if self._line is not None:
                self._line.send(encode(message))

    def _remember(self, event: Event) -> None:
        if isinstance(event, (Ready, Settled, Leaving)):
            self._last = event

    def _keep(self, event: Event) -> None:
        """Until there is a connection. Of what only the last is of interest, only the last."""
        if isinstance(event, (Announce, Progress, Ready, Settled)):
            self._unsaid = [other for other in self._unsaid if type(other) is not type(event)]
        self._unsaid.append(event)


def _forked() -> None:
    for link in list(_LINKS):
        link.forked()


os.register_at_fork(after_in_child=_forked)
