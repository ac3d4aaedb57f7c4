"""What is whole in a structure that ended in the middle of being built."""

from __future__ import annotations

import contextlib
from typing import Any


def fold(frames: list[list[Any]]) -> Any | None:
    """The outermost object of a stack that was cut into frames at each container still being filled; None if empty.

    A container that was being filled is kept where a dictionary held it (the list of entries) and dropped where a list
    did (an entry): the elements of a list are what must be complete.
    """
    while len(frames) > 1:
        items = frames.pop()
        holder = frames[-1]
        if not holder or not isinstance(holder[-1], (list, dict)):
            continue  # a tuple or the like: what it would have held is lost
        with contextlib.suppress(TypeError):  # damaged, not only cut: a key that cannot be one
            fill(holder[-1], items)
        if len(frames) > 1 and frames[-2] and isinstance(frames[-2][-1], list):
            holder.pop()
    return frames[0][0] if frames and frames[0] else None


def fill(container: Any, items: list[Any]) -> None:
    """Adds items to a list or set, or pairs of them to a dictionary."""
    if isinstance(container, list):
        container.extend(items)
    elif isinstance(container, dict):
        container.update(zip(items[::2], items[1::2], strict=False))
    elif isinstance(container, set):
        container.update(items)
    else:
        raise TypeError(type(container).__name__)
