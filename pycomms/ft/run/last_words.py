"""Why a process has ended, in the words of the process itself. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

_ERROR = re.compile(r"^(?:[A-Za-z_]\w*\.)*([A-Z]\w*)(?:: .*|:)?$")
"""The end of Python's traceback: a class, and what it says."""
_OTHERS = re.compile(r"^(?:terminate called |Fatal Python error: |.*: Assertion .* failed\.?$)")
_RANK = re.compile(r"^\[rank\d+\]: ")
"""torch puts it in front of each line of a traceback."""
_LONGEST = 200


def last_words(lines: Sequence[str]) -> str:
    """The last line of stderr that says what was wrong; empty: none does."""
    for line in reversed(lines):
        words = _RANK.sub("", line).rstrip()
        error = _ERROR.match(words)
        if (error and not error[1].endswith("Warning")) or _OTHERS.match(words):
            return words if len(words) <= _LONGEST else f"{words[: _LONGEST - 3]}..."
    return ""
