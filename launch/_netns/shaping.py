"""What stands in the way between two hosts, and the orders to `tc` for it.

Pure. Latency and loss are not here: this kernel's `tc` may not have netem, so they are the relay's (relay.py).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from datetime import timedelta

from .plan import INTERFACE, SINK, Addresses

LONGEST_LATENCY = timedelta(seconds=60)
_BURST_S = 0.005  # timers are late on a busy machine; what a burst allows is not lost to that
_LEAST_BURST = 32 * 1024
_QUEUE_S = 0.05
_LEAST_QUEUE = 256 * 1024
LEAST_RATE = 8_000


@dataclass(frozen=True, kw_only=True)
class Wire:
    """One direction between two hosts.

    latency: added to each frame, one way: a round trip takes twice as long. loss: share of the frames, from 0 to 1.
    """

    latency: timedelta = timedelta(0)
    loss: float = 0.0

    def __post_init__(self) -> None:
        if not timedelta(0) <= self.latency <= LONGEST_LATENCY:
            raise ValueError(f"latency must be from 0 to {LONGEST_LATENCY.total_seconds():.0f} s, not {self.latency}")
        if not 0.0 <= self.loss <= 1.0:
            raise ValueError(f"loss must be a share from 0 to 1, not {self.loss}")


PLAIN = Wire()


@dataclass(frozen=True)
class Direction:
    speaker: int
    listener: int


def across(sides: Collection[Collection[int]], hosts: int) -> set[Direction]:
    """The directions that a partition cuts. Hosts that no side names are on a side together."""
    named = [host for side in sides for host in side]
    if len(named) != len(set(named)) or not set(named) <= set(range(hosts)):
        raise ValueError(f"sides must name hosts 0 to {hosts - 1}, each once, not {[sorted(s) for s in sides]}")
    side_of = {host: number for number, side in enumerate(sides) for host in side}
    return {Direction(a, b) for a in range(hosts) for b in range(hosts) if side_of.get(a, -1) != side_of.get(b, -1)}


def cut_orders(hosts: list[Addresses], cut: Iterable[Direction], joined: Iterable[Direction]) -> Iterator[str]:
    """For `tc -batch` in the switch. A frame of the speaker ends where it would leave the switch for the listener.

    The filter redirects to a bridge without ports, since few kernels lack `mirred` and this one lacks `drop`.
    """
    for verb, directions in (("add", cut), ("del", joined)):
        for way in sorted(directions, key=lambda d: (d.listener, d.speaker)):
            place = f"filter {verb} dev {hosts[way.listener].port} egress pref {way.speaker + 1} protocol all u32"
            match = f" match ether src {hosts[way.speaker].hardware} action mirred egress redirect dev {SINK}"
            yield place + match if verb == "add" else place


def rate_orders(host: Addresses, rate: int | None, before: int | None) -> tuple[list[str], list[str]]:
    """For `tc -batch` in the host (what it sends) and in the switch (what it gets). `rate`: bit/s, None: no limit."""
    devices = (INTERFACE, host.port)
    if rate is None:
        undo = [f"qdisc del dev {device} root" for device in devices] if before is not None else []
        return undo[:1], undo[1:]
    burst = max(_LEAST_BURST, int(rate / 8 * _BURST_S))
    queue = max(_LEAST_QUEUE, int(rate / 8 * _QUEUE_S))
    sent, got = (
        f"qdisc replace dev {device} root tbf rate {rate}bit burst {burst} limit {queue}" for device in devices
    )
    return [sent], [got]
