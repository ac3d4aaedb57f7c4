"""Whether what a job says of a fault names who it was and what it was. Pure.

Said is what a user is told without looking for it: the reason that the session gives for its recovery, and the verdict
of the flight recorder. What the program itself has printed does not count.
"""

from __future__ import annotations

import re

from pycomms.chaos.core.log import Hit, Log
from pycomms.chaos.core.plan import Fault

_OTHER_ORDER = r"(OP_MISMATCH|ORDER_SWAP|MISSING_RANK|ORDER_DEADLOCK)"
_KINDS = {
    "kill": r"{signal}\b",
    "exit": r"exit code {code}\b",
    "exception": r"ChaosError",
    "segfault": r"SIGSEGV",
    "abort": r"SIGABRT",
    "oom": r"(MemoryError|bad_alloc)",
    "freeze": r"stopped by a signal",
    "hang": r"(does not stand still|did not stand still|MISSING_RANK|stuck|no answer)",
    "skip": _OTHER_ORDER,
    "repeat": _OTHER_ORDER,
    "swap": _OTHER_ORDER,
    "shape": r"SIZE_MISMATCH",
    "dtype": r"DTYPE_MISMATCH",
}
KINDS = tuple(_KINDS)
"""That can be told from each other by what happens; of numbers that are wrong nobody can say whose they are."""


def said_of(log: Log, hit: Hit) -> list[str]:
    """The first reason of a recovery behind the fault, and the verdict."""
    reasons = [one.reason for one in log.settlings if one.t > hit.t and not one.is_first]
    verdict = [str(log.verdict["text"])] if log.verdict.get("text") else []
    return reasons[:1] + verdict


def names_rank(log: Log, hit: Hit) -> bool:
    """As the rank in the words of a recovery, or as the one and only root of the verdict."""
    reasons = [one.reason for one in log.settlings if one.t > hit.t and not one.is_first]
    if reasons and re.search(rf"\(slot {hit.rank}\)", reasons[0]):
        return True
    return list(log.verdict.get("root_ranks", [])) == [hit.rank]


def names_kind(log: Log, hit: Hit, fault: Fault) -> bool:
    if fault.settings.get("signal") == "SIGINT":  # which Python makes an exception of
        return any("KeyboardInterrupt" in text for text in said_of(log, hit))
    settings = {name: re.escape(str(value)) for name, value in fault.settings.items()}
    pattern = _KINDS[fault.kind].format(**settings)
    return any(re.search(pattern, text) for text in said_of(log, hit))
