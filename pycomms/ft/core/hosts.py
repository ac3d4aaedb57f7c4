"""When each host was last heard. Silence alone says little: who is missed by others as well is decided elsewhere."""

from __future__ import annotations

from collections import OrderedDict


class Hosts:
    """Costs of a beat, and of asking for the next deadline, do not grow with the number of hosts."""

    def __init__(self, silence: float) -> None:
        self._silence = silence
        self._heard: OrderedDict[str, float] = OrderedDict()  # those that are not lost, the longest silent first
        self._lost: dict[str, str] = {}  # and why
        self._ended: dict[str, str] = {}  # its connection has, and has not come back
        self._unheard: set[str] = set()  # known from others alone

    def hear(self, now: float, host: str) -> None:
        self._lost.pop(host, None)
        self._ended.pop(host, None)
        self._unheard.discard(host)
        self._heard[host] = now
        self._heard.move_to_end(host)

    def expect(self, now: float, host: str) -> None:
        """Others have told of it; from now on it has as long as any other."""
        if host not in self._heard and host not in self._lost:
            self._heard[host] = now
            self._unheard.add(host)

    def connection_ended(self, host: str, how: str) -> None:
        if host in self._heard:
            self._ended[host] = how

    def expire(self, now: float) -> list[str]:
        """Those that have become lost."""
        lost = []
        while self._heard:
            host, heard = next(iter(self._heard.items()))
            if heard + self._silence > now:
                break
            del self._heard[host]
            how = self._ended.pop(host, "it is silent")
            self._lost[host] = f"host {host} is lost: {how}"
            lost.append(host)
        return lost

    def next_deadline(self) -> float | None:
        for heard in self._heard.values():
            return heard + self._silence
        return None

    def reachable(self, host: str) -> bool:
        return host in self._heard and host not in self._ended and host not in self._unheard

    def is_lost(self, host: str) -> bool:
        return host in self._lost

    def was_heard(self, host: str) -> bool:
        """Whether this coordinator itself has ever heard it."""
        return host not in self._unheard

    def why(self, host: str) -> str:
        return self._lost.get(host) or self._ended.get(host) or "it does not answer"

    def forget(self, host: str) -> None:
        for known in (self._lost, self._ended, self._heard):
            known.pop(host, None)
        self._unheard.discard(host)
