"""Whether a fault is due, from what this process comes to. Pure."""

from __future__ import annotations

from typing import Any


class Watch:
    """One fault of the plan, as far as this process is concerned: counts what its trigger counts."""

    def __init__(self, number: int, fault: dict[str, Any]) -> None:
        at = fault["at"]
        self.number = number
        self.fault = fault
        self.moment: str = at.get("moment", "before")
        self._first: int | None = at.get("step")
        self._op: str | None = at.get("op")
        self._point: str | None = at.get("point")
        self._count: int = at.get("count", 1)
        self._seen = 0
        self._is_in_step = self._first is None
        self.is_over = False

    def step(self, number: int) -> bool:
        """A step begins: whether that is what the fault waits for."""
        if self.is_over or self._first is None:
            return False
        self._is_in_step = number >= self._first
        self._seen = 0
        return self._is_in_step and self._op is None and self._point is None

    def operation(self, name: str) -> bool:
        """An operation is about to begin."""
        return self._counts(self._op is not None and self._op in ("any", name))

    def point(self, name: str) -> bool:
        """The program has come to a place of its session."""
        return self._counts(self._point == name)

    def _counts(self, is_it: bool) -> bool:
        if self.is_over or not is_it or not self._is_in_step:
            return False
        self._seen += 1
        return self._seen == self._count
