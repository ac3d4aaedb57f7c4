"""What a line of the log has to have so that it can be judged, and what a program may put there itself. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import NoneType
from typing import Any

FROM_PROGRAMS = ("values", "restored", "finished")
"""That are checked; a program may tell of others, which stand in the log and mean nothing."""

_WHO: dict[str, type] = {"pid": int, "rank": int, "incarnation": int}
_FIELDS: dict[str, dict[str, type]] = {
    "begin": {},
    "claim": {},
    "end": {"how": str},
    "fault": {"fault": int, "pid": int, "what": str, "where": str},
    "finished": _WHO,
    "gauge": {"pid": int, "rank": int, "memory": int, "descriptors": int, "threads": int},
    "gone": _WHO,
    "left": {"processes": list, "shared_memory": list},
    "not-injected": {"fault": int, "why": str},
    "operation": _WHO,
    "over": {"fault": int},
    "point": {**_WHO, "point": str},
    "restored": {**_WHO, "step": int},
    "step": {**_WHO, "step": int},
    "values": {**_WHO, "step": int},
    "worker": _WHO,
}
_SUM: dict[str, type] = {"elements": int, "wrong": int}
"""Of values that tell of a sum as the standard job makes it: `payload.py`."""
_RESERVED = ("t", "kind", *_WHO)
_MOST_B = 1 << 19
"""For one line: half of what the controller reads."""


def flaw(event: object, faults: int) -> str:
    """What a line lacks, in words: expected …; empty: nothing. faults: how many the plan has."""
    if not isinstance(event, dict) or not isinstance(event.get("kind"), str) or not _is_number(event.get("t")):
        return "an object with a kind and a time t"
    kind = event["kind"]
    wanted = dict(_FIELDS.get(kind, {}))
    if kind == "values" and "head" in event:
        wanted.update(_SUM)
    if kind == "point" and event.get("point") == "settled":
        wanted.update(members=list, reason=str)
    if kind == "point" and event.get("point") == "committed":
        wanted.update(committed=int)
    for name, type_ in wanted.items():
        if not isinstance(event.get(name), type_) or isinstance(event[name], bool):
            return f"{kind} with {name} of type {type_.__name__}"
    if "fault" in wanted and not 0 <= event["fault"] < faults:
        return f"{kind} with fault below {faults}, as many as the plan has"
    if kind == "end" and not isinstance(event.get("code", ""), (int, NoneType)):
        return "end with a code"
    return _flaw_of_values(event) if kind == "values" else ""


def _flaw_of_values(event: Mapping[str, Any]) -> str:
    if not isinstance(event.get("samples", []), list):
        return "values with samples of type list"
    if "head" in event and not all(isinstance(event.get(name, ""), (int, NoneType)) for name in ("head", "total")):
        return "values whose head and total are whole numbers, or null"
    return ""


def check_told(kind: object, fields: Mapping[str, object]) -> None:
    """Raises ValueError where a program tells what would make the log of its run unreadable."""
    ours = sorted(set(_FIELDS) - set(FROM_PROGRAMS))
    if not isinstance(kind, str) or kind in ours:
        raise ValueError(f"kind: given {kind!r}, expected a text that is none of {', '.join(ours)}")
    for name in _RESERVED:
        if name in fields:
            raise ValueError(f"{name}: given {fields[name]!r}, expected other fields: pycomms says this one itself")
    try:
        size = len(json.dumps(fields))
    except (TypeError, ValueError) as error:
        raise ValueError(f"fields: given {fields!r:.200}, expected what JSON can hold: {error}") from error
    if size > _MOST_B:
        raise ValueError(f"fields: given {size} bytes as JSON, expected {_MOST_B} at most")
    told: dict[str, Any] = {"kind": kind, "t": 0.0, "pid": 0, "rank": 0, "incarnation": 0, **fields}
    if expected := flaw(told, 0):
        raise ValueError(f"fields: given {dict(fields)!r:.200}, expected {expected}")


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
