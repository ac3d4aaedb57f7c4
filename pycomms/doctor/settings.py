"""The section on environment variables: those that are set, that nobody reads, and that would be refused. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from difflib import get_close_matches

from pycomms._config import PREFIX, Config, Membership, variable_of
from pycomms.doctor.finding import Finding, note, ok, problem

_OF_CHAOS = frozenset({"PYCOMMS_CHAOS", "PYCOMMS_CHAOS_HOSTS", "PYCOMMS_CHAOS_CLOCKS"})  # it sets them for its job
_READERS: tuple[Callable[[Mapping[str, str]], object], ...] = (Config.from_environment, Membership.from_environment)


def judge(environment: Mapping[str, str]) -> list[Finding]:
    known = {variable_of(f.name) for f in fields(Config)} | {
        variable_of(f.name, Membership) for f in fields(Membership)
    }
    ours = sorted(name for name in environment if name.startswith(PREFIX) or name in known)
    found = []
    for name in ours:
        value = environment[name]
        if name not in known | _OF_CHAOS:
            found.append(_unknown(name, sorted(known)))
        elif trouble := _refusal(name, value):
            found.append(problem(name, trouble, f"mend or unset {name} (docs/env.md)", value))
        else:
            found.append(ok(name, repr(value), value))
    return found or [ok("variables", f"no {PREFIX}… is set: all defaults")]


def _refusal(name: str, value: str) -> str:
    """What pycomms itself would say to it. What the engine refuses, it says when it is asked for its address."""
    for read in _READERS:
        try:
            read({name: value})
        except ValueError as error:
            return str(error)
    return ""


def _unknown(name: str, known: list[str]) -> Finding:
    near = get_close_matches(name, known, n=1, cutoff=0.8)
    if near:
        return problem(name, "nobody reads it", f"is {near[0]} meant?")
    return note(name, "nobody reads it", "pycomms has no such variable (docs/env.md)")
