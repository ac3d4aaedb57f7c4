"""What has happened, counted: for the metrics and the status page. The coordinator's thread alone."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass

from pycomms.ft.core.messages import Change, EpochId, Event, Evict, Form, MemberId, Refused, Settled
from pycomms.ft.core.rule import Outgoing

BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""Seconds: upper bounds of the histograms."""

_KEPT = 50
_NAMED = 4


@dataclass(frozen=True, kw_only=True)
class Incident:
    """A membership that was formed or has to end, or the end of a member, for people.

    Attributes:
        at: on the coordinator's clock.
        kind: ``"death"``, ``"change"``, ``"form"``, ``"eviction"`` or ``"refusal"``.
    """

    at: float
    kind: str
    epoch: EpochId | None
    who: str
    reason: str


class Histogram:
    def __init__(self) -> None:
        self.counts = [0] * (len(BUCKETS) + 1)
        self.sum = 0.0

    def add(self, seconds: float) -> None:
        self.counts[bisect_left(BUCKETS, seconds)] += 1
        self.sum += seconds


class Tally:
    def __init__(self) -> None:
        self.received: Counter[str] = Counter()  # messages, by kind
        self.sent: Counter[str] = Counter()
        self.bytes_received = 0
        self.bytes_sent = 0
        self.denied: Counter[str] = Counter()  # calls that prove nothing, by what is wrong
        self.bad_messages = 0
        self.attached = 0  # connections of hosts, ever
        self.overflows = 0
        self.errors = 0
        self.deaths = 0
        self.forms = 0
        self.changes = 0
        self.evictions = 0
        self.refusals: Counter[str] = Counter()
        self.recovery = Histogram()  # of members, as they measure it
        self.change_to_form = Histogram()
        self.log_write = Histogram()
        self.incidents: deque[Incident] = deque(maxlen=_KEPT)
        self._dead: set[MemberId] = set()
        self._changing_since: float | None = None

    def heard(self, event: Event) -> None:
        self.received[type(event).__name__] += 1
        if isinstance(event, Settled):
            self.recovery.add(event.seconds)

    def decided(self, now: float, outgoing: list[Outgoing]) -> None:
        """Notices go to many: each counts once."""
        for notice in {id(one.notice): one.notice for one in outgoing}.values():
            if isinstance(notice, Change):
                self._change(now, notice)
            elif isinstance(notice, Form):
                self._form(now, notice)
            elif isinstance(notice, Evict):
                self.evictions += 1
                self._note(now, "eviction", None, _name(notice.member), notice.reason)
            elif isinstance(notice, Refused):
                self.refusals[notice.verdict.value] += 1
                self._note(now, "refusal", None, _name(notice.member), f"{notice.verdict.value}: {notice.reason}")

    def _change(self, now: float, change: Change) -> None:
        if self._changing_since is None:
            self._changing_since = now
        self.changes += 1
        self._deaths(now, change.epoch, change.died)
        joining = ", ".join(map(_name, change.joining[:_NAMED])) + (", …" if change.joining[_NAMED:] else "")
        self._note(now, "change", change.epoch, joining, change.reason)

    def _form(self, now: float, form: Form) -> None:
        if self._changing_since is not None:
            self.change_to_form.add(now - self._changing_since)
            self._changing_since = None
        self.forms += 1
        self._deaths(now, form.previous, form.died)
        self._dead.clear()
        self._note(now, "form", form.epoch, f"{len(form.seats)} members", form.reason)

    def _deaths(self, now: float, epoch: EpochId | None, died: Mapping[MemberId, str]) -> None:
        for member, how in died.items():
            if member not in self._dead:
                self._dead.add(member)
                self.deaths += 1
                self._note(now, "death", epoch, _name(member), how)

    def _note(self, now: float, kind: str, epoch: EpochId | None, who: str, reason: str) -> None:
        self.incidents.append(Incident(at=now, kind=kind, epoch=epoch, who=who, reason=reason))


def _name(member: MemberId) -> str:
    return f"{member.host}/{member.nonce[:8]}"
