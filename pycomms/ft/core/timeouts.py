"""All timeouts of fault tolerance, from one number."""

from __future__ import annotations

from dataclasses import dataclass, fields
from datetime import timedelta

SHORTEST = timedelta(milliseconds=200)
LONGEST = timedelta(days=90)
"""A quarter of it is host_silence, which grpc and the kernel count in milliseconds, in 31 bits: up to 24 days."""


@dataclass(frozen=True, kw_only=True)
class Timeouts:
    """What each layer waits for. Made by :func:`derive`; a value set by hand is checked against the others.

    Attributes:
        recovery_deadline: from the moment that a failure can be known to the next step, all of it together.
        operation: a collective in which somebody does not come. He then counts as hung, so this must be longer than a
            rank ever lags behind the others.
        gather: how long the coordinator waits for the living to be ready before it goes on without those who are not.
        regroup: making the new group.
        restore: fetching a state, without a byte of progress.
        rejoin: how long a membership that is too small waits for newcomers.
        host_silence: after which a host that says nothing is taken for lost, if others miss it as well.
        beat: how often a host says something when nothing happens.
        stopped: how long a worker may be stopped by a signal until its agent ends it, for all others wait for it.
        reconnect: the longest pause between two tries to reach the coordinator.
    """

    recovery_deadline: timedelta
    operation: timedelta
    gather: timedelta
    regroup: timedelta
    restore: timedelta
    rejoin: timedelta
    host_silence: timedelta
    beat: timedelta
    stopped: timedelta
    reconnect: timedelta

    def __str__(self) -> str:
        return "\n".join(f"{one.name:18} {getattr(self, one.name).total_seconds():9.3f} s" for one in fields(self))


def derive(recovery_deadline: timedelta, **by_hand: timedelta) -> Timeouts:
    """All timeouts, from the one that users set.

    Raises:
        TypeError: the deadline, or a value set by hand, is no timedelta.
        ValueError: it is too short or too long, a name is unknown, or a value set by hand contradicts another.
    """
    if not isinstance(recovery_deadline, timedelta):
        raise TypeError(f"recovery_deadline is {recovery_deadline!r}, expected a timedelta")
    seconds = recovery_deadline.total_seconds()
    if recovery_deadline < SHORTEST:
        raise ValueError(f"recovery_deadline is {seconds} s, expected at least {SHORTEST.total_seconds()} s")
    if recovery_deadline > LONGEST:
        raise ValueError(f"recovery_deadline is {seconds} s, expected at most {LONGEST.total_seconds()} s")
    derived = {
        "operation": recovery_deadline,
        "gather": recovery_deadline / 4,
        "regroup": recovery_deadline / 4,
        "restore": recovery_deadline / 2,
        "rejoin": 12 * recovery_deadline,
        "host_silence": recovery_deadline / 4,
        "beat": recovery_deadline / 20,
        "stopped": recovery_deadline / 400,
        "reconnect": min(recovery_deadline / 40, timedelta(milliseconds=50)),
    }
    for name, value in by_hand.items():
        if name not in derived:
            raise ValueError(f"no timeout is called {name!r}; there are {', '.join(derived)}")
        if not isinstance(value, timedelta):
            raise TypeError(f"the timeout {name} is {value!r}, expected a timedelta")
        if value <= timedelta(0):
            raise ValueError(f"the timeout {name} is {value.total_seconds()} s, expected more than 0")
    timeouts = Timeouts(recovery_deadline=recovery_deadline, **{**derived, **by_hand})
    _check(timeouts)
    return timeouts


def derive_from(seconds: float) -> Timeouts:
    """The same, from the number of a command line, which may be none that a timedelta can have. Raises ValueError."""
    if not abs(seconds) <= LONGEST.total_seconds():
        raise ValueError(f"recovery_deadline is {seconds} s, expected at most {LONGEST.total_seconds()} s")
    return derive(timedelta(seconds=seconds))


def _check(timeouts: Timeouts) -> None:
    within = timeouts.gather + timeouts.regroup + timeouts.restore
    if within > timeouts.recovery_deadline:
        raise ValueError(
            f"gather, regroup and restore take up to {within.total_seconds()} s together, "
            f"more than the recovery_deadline of {timeouts.recovery_deadline.total_seconds()} s"
        )
    if timeouts.host_silence < 3 * timeouts.beat:
        raise ValueError(
            f"host_silence is {timeouts.host_silence.total_seconds()} s, expected at least three beats "
            f"of {timeouts.beat.total_seconds()} s: one late packet would be a lost host"
        )
    if timeouts.rejoin < timeouts.gather:
        raise ValueError(
            f"rejoin is {timeouts.rejoin.total_seconds()} s, expected at least gather, "
            f"{timeouts.gather.total_seconds()} s"
        )
