"""The section on capabilities: what is there, and why not. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pycomms.doctor.capabilities import CAPABILITIES, Capability, group_by_reason, reason
from pycomms.doctor.child import Told
from pycomms.doctor.finding import Finding, note, ok


def judge(told: Told) -> list[Finding]:
    missing = _missing(told)
    if missing is None:
        return [note("capabilities", _why_not_known(told))]
    found = [ok(one.name, plain(one.what)) for one in CAPABILITIES if not missing[one.name]]
    return found + [_judge_group(group, why) for why, group in group_by_reason(missing).items()]


def _judge_group(group: Sequence[Capability], why: str) -> Finding:
    """Of several that are missing for one reason, the first is said in full."""
    first, *others = group
    names = f", and {', '.join(one.name for one in others)}" if others else ""
    instead = f"instead: {plain(first.otherwise)}" if first.otherwise else ""
    return note(first.name, f"not here: {plain(first.what)}{names}: {why}", instead)


def for_programs(told: Told) -> dict[str, dict[str, object]]:
    """Each capability by name. available: None where it is not known. missing: all that it lacks."""
    missing = _missing(told)
    if missing is None:
        why = _why_not_known(told)
        return {one.name: {"available": None, "missing": [], "why_not": why} for one in CAPABILITIES}
    return {
        one.name: {
            "available": not missing[one.name],
            "missing": missing[one.name],
            "why_not": reason(one, missing[one.name]),
        }
        for one in CAPABILITIES
    }


def _missing(told: Told) -> Mapping[str, list[str]] | None:
    return told.of("capabilities")


def _why_not_known(told: Told) -> str:
    return (
        f"not known: {told.why_not('capabilities')}" if told.ended else "not looked at: there is no torch; see versions"
    )


def plain(text: str) -> str:
    """Without the marks of the documentation."""
    return text.replace("`", "")
