"""What the standard job sums: integers of which the sum says who has contributed, and a reference for it. Pure.

The first element of slot s is 4^s: the sum has one digit, base 4, for each slot, how often it is in. The others are a
line whose slope belongs to slot and step, so a contribution of another step, or a stale one, is another number.
"""

from __future__ import annotations

from collections.abc import Sequence

SLOTS = 26
"""At most: sums are then exact in 64-bit floating point as well."""

_PRIME = (1 << 61) - 1


def slope(slot: int, step: int) -> int:
    return step * (40_503 * (slot + 1) % 65_521)


def total(step: int, members: Sequence[int], elements: int) -> int:
    """Of all elements of the sum."""
    tail = elements - 1
    return sum(4**slot + tail * slope(slot, step) + tail * (tail + 1) // 2 for slot in members)


def members_of(head: int) -> list[int] | None:
    """Who is in a sum, from its first element; None: that is not one contribution of each."""
    members, slot = [], 0
    while head > 0:
        head, digit = divmod(head, 4)
        if digit > 1:
            return None
        if digit:
            members.append(slot)
        slot += 1
    return members if head == 0 else None


def fold(digest: int, sum_: int) -> int:
    """The state of the standard job: of all its steps, in their order."""
    return (digest * 1_000_003 + sum_) % _PRIME
