"""Small pieces of text. Must not know: verdicts."""

from __future__ import annotations

from collections.abc import Sequence


def ranks_text(ranks: Sequence[int]) -> str:
    """``rank 5``, ``ranks 0-3, 6``: runs are drawn together."""
    return f"rank{'' if len(ranks) == 1 else 's'} {runs(ranks)}"


def runs(ranks: Sequence[int]) -> str:
    """``0-3, 6``."""
    parts: list[list[int]] = []
    for rank in sorted(ranks):
        if parts and parts[-1][-1] == rank - 1:
            parts[-1][1:] = [rank]
        else:
            parts.append([rank])
    return ", ".join("-".join(map(str, part)) for part in parts)


def duration_text(nanoseconds: int) -> str:
    """``250 ms``, ``3.2 s``, ``12 min``."""
    seconds = nanoseconds / 1e9
    if seconds < 1:
        return f"{seconds * 1e3:.0f} ms"
    return f"{seconds:.1f} s" if seconds < 120 else f"{seconds / 60:.0f} min"
