"""What a coordinator shows to those who look: values, copied from the event loop's, so any thread may read them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median
from typing import Any

from pycomms.ft.coordinator.outbox import Outbox
from pycomms.ft.coordinator.tally import Histogram, Incident, Tally
from pycomms.ft.core.messages import EpochId
from pycomms.ft.core.rule import Rule
from pycomms.ft.core.view import View

_NEWEST = 30


@dataclass(frozen=True, kw_only=True)
class Counts:
    """The numbers of a Tally at one moment."""

    received: dict[str, int]
    sent: dict[str, int]
    denied: dict[str, int]
    refusals: dict[str, int]
    bytes_received: int
    bytes_sent: int
    bad_messages: int
    attached: int
    overflows: int
    errors: int
    deaths: int
    forms: int
    changes: int
    evictions: int
    recovery: tuple[tuple[int, ...], float]
    change_to_form: tuple[tuple[int, ...], float]
    log_write: tuple[tuple[int, ...], float]

    @classmethod
    def of(cls, tally: Tally) -> Counts:
        return cls(
            received=dict(tally.received),
            sent=dict(tally.sent),
            denied=dict(tally.denied),
            refusals=dict(tally.refusals),
            bytes_received=tally.bytes_received,
            bytes_sent=tally.bytes_sent,
            bad_messages=tally.bad_messages,
            attached=tally.attached,
            overflows=tally.overflows,
            errors=tally.errors,
            deaths=tally.deaths,
            forms=tally.forms,
            changes=tally.changes,
            evictions=tally.evictions,
            recovery=_copied(tally.recovery),
            change_to_form=_copied(tally.change_to_form),
            log_write=_copied(tally.log_write),
        )


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """Attributes:
    hosts: names of those that are attached.
    now, wall: the same moment on the coordinator's clock and on the wall's.
    """

    view: View
    counts: Counts
    incidents: tuple[Incident, ...]
    hosts: tuple[str, ...]
    now: float
    wall: float
    started: float
    boot: int
    address: str
    rule: Rule

    @classmethod
    def take(cls, *, tally: Tally, hosts: Iterable[Outbox], **rest: Any) -> Snapshot:
        return cls(
            counts=Counts.of(tally),
            incidents=tuple(tally.incidents),
            hosts=tuple(outbox.host for outbox in hosts),
            **rest,
        )

    @property
    def steps_per_second(self) -> float:
        """Of the epoch: its members go in step, so the middle one says it."""
        rates = [one.steps_per_second for one in self.view.members if one.rank is not None]
        return median(rates) if rates else 0.0

    @property
    def committed(self) -> int:
        return max((one.committed for one in self.view.members), default=0)

    def as_json(self) -> dict[str, Any]:
        """What /status.json holds; docs/ft_coordinator.md describes it."""
        view = self.view
        timeouts = self.rule.timeouts
        return {
            "phase": view.phase.value,
            "reason": view.reason,
            "epoch": _epoch(view.epoch),
            "generation": view.epoch.counter if view.epoch else 0,
            "attempts": view.attempts,
            "time": self.wall,
            "started": self.started,
            "boot": self.boot,
            "address": self.address,
            "min_ranks": view.min_ranks,
            "max_ranks": self.rule.max_ranks,
            "recovery_deadline_s": timeouts.recovery_deadline.total_seconds(),
            "steps_per_second": self.steps_per_second,
            "committed": self.committed,
            "hosts": sorted(self.hosts),
            "members": [
                {
                    "host": one.member.host,
                    "nonce": one.member.nonce,
                    "rank": one.rank,
                    "slot": one.slot,
                    "pid": one.pid,
                    "state": one.state.value,
                    "committed": one.committed,
                    "steps_per_second": one.steps_per_second,
                }
                for one in view.members
            ],
            "incidents": [
                {
                    "time": self._wall(one.at),
                    "kind": one.kind,
                    "epoch": _epoch(one.epoch),
                    "who": one.who,
                    "reason": one.reason,
                }
                for one in reversed(self.incidents)
            ],
            "decisions": [
                {
                    "time": self._wall(one.at),
                    "phase": one.phase.value,
                    "epoch": _epoch(one.epoch),
                    "reason": one.reason,
                }
                for one in reversed(view.decisions[-_NEWEST:])
            ],
        }

    def _wall(self, at: float) -> float:
        return self.wall - (self.now - at)


def _epoch(epoch: EpochId | None) -> str | None:
    return None if epoch is None else f"{epoch.boot}.{epoch.counter}"


def _copied(histogram: Histogram) -> tuple[tuple[int, ...], float]:
    return tuple(histogram.counts), histogram.sum
