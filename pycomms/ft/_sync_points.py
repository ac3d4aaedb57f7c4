"""Places that a session comes to, for whoever wants to be there when something goes wrong: pycomms.chaos.

Nobody watches unless `observer` is set, and then each place costs one look at it.
"""

from __future__ import annotations

from typing import Protocol


class Observer(Protocol):
    def __call__(self, point: str, slot: int, step: int, told: dict[str, object]) -> None:
        """Called by the thread that trains; may block, raise, and end the process.

        Args:
            point: the place.
            step: the step that is to be committed next.
            told: more about the place.
        """
        ...


observer: Observer | None = None


def reached(point: str, slot: int, step: int, **told: object) -> None:
    if observer is not None:
        observer(point, slot, step, told)
