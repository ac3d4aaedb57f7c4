"""From what TOML says to a plan and back. An error names the key, what was given and what was expected."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, cast

from pycomms.chaos.core.kinds import KINDS, OPERATIONS, POINTS, SERVICES, Form, Kind, Setting, Value
from pycomms.chaos.core.plan import ANY, INJECTED, MOMENTS, OUTCOMES, Expectation, Fault, Plan, Trigger

INVARIANTS = (
    "injected", "ends", "outcome", "values", "agreement", "steps", "samples", "recovery", "explained", "no-false-alarm",
    "strength", "growth", "hygiene",
)  # fmt: skip
"""All that a run is checked for; `invariants.py` has what each means."""

MOST_RANKS = 1 << 16


class PlanError(ValueError):
    """A plan that makes no sense."""

    def __init__(self, key: str, given: object, expected: str) -> None:
        super().__init__(f"{key}: given {given!r}, expected {expected}")


class _Table:
    """A table of TOML, of which each key is asked for once; what is left over is nobody's."""

    def __init__(self, name: str, given: object) -> None:
        if not isinstance(given, dict):
            raise PlanError(name or "the plan", given, "a table")
        self.name = name
        self._left: dict[str, Any] = dict(given)
        self._asked: list[str] = []

    def key(self, name: str) -> str:
        return f"{self.name}.{name}" if self.name else name

    def has(self, name: str) -> bool:
        return name in self._left

    def take(self, name: str, default: Any = None) -> Any:
        self._asked.append(name)
        return self._left.pop(name, default)

    def text(self, name: str, default: str, choices: Sequence[str] = ()) -> str:
        given = self.take(name, default)
        if not isinstance(given, str):
            raise PlanError(self.key(name), given, "a text")
        if choices and given not in choices:
            raise PlanError(self.key(name), given, f"one of {', '.join(choices)}")
        return given

    def whole(self, name: str, default: int | None, least: int = 0) -> int | None:
        given = self.take(name, default)
        if given is not default and (not isinstance(given, int) or isinstance(given, bool) or given < least):
            raise PlanError(self.key(name), given, f"a whole number, {least} or more")
        return given

    def seconds(self, name: str, default: float | None) -> float | None:
        given = self.take(name, default)
        return None if given is None else _seconds(self.key(name), given)

    def end(self) -> None:
        for name, value in self._left.items():
            raise PlanError(self.key(name), value, f"no such key; there are {', '.join(sorted(set(self._asked)))}")


def parse(given: object, name: str = "plan") -> Plan:
    """Raises PlanError."""
    table = _Table("", given)
    ranks = table.whole("ranks", 0) or 0
    if ranks > MOST_RANKS:
        raise PlanError("ranks", ranks, f"{MOST_RANKS} at most")
    faults = table.take("fault", [])
    if not isinstance(faults, list):
        raise PlanError("fault", faults, "tables [[fault]]")
    plan = Plan(
        name=table.text("name", name),
        about=table.text("about", ""),
        seed=table.whole("seed", 0) or 0,
        ranks=ranks,
        hosts=table.whole("hosts", 0) or 0,
        steps=table.whole("steps", 0) or 0,
        duration=_positive("duration", table.seconds("duration", 120.0)),
        faults=tuple(_fault(f"fault[{number}]", one, ranks) for number, one in enumerate(faults)),
        expect=_expectation(_Table("expect", table.take("expect", {}))),
    )
    table.end()
    return plan


def _fault(name: str, given: object, of_ranks: int) -> Fault:
    table = _Table(name, given)
    kind = KINDS[table.text("kind", "", tuple(KINDS))]
    ranks = _ranks(table.key("rank"), table.take("rank"), of_ranks)
    process = table.text("process", "")
    if bool(ranks) == bool(process):
        both = f"rank {list(ranks)} and process {process!r}" if ranks else "neither rank nor process"
        raise PlanError(name, both, "one of them")
    if process and not (kind.on_service and process in SERVICES):
        can = f"one of {', '.join(SERVICES)}" if kind.on_service else f"a rank: {kind.name} is for workers"
        raise PlanError(table.key("process"), process, can)
    at = _trigger(_Table(table.key("at"), table.take("at", {})), of_ranks)
    if kind.on_operation and (at.op is None or at.moment != "before"):
        raise PlanError(
            table.key("at"), {"op": at.op, "moment": at.moment}, f"an op, moment 'before': {kind.name} changes it"
        )
    if kind.in_program and at.moment == "inside":
        raise PlanError(table.key("at.moment"), "inside", f"before or after: {kind.name} happens between operations")
    if kind.on_operation and at.rank is not None:
        raise PlanError(table.key("at.rank"), at.rank, f"none: {kind.name} changes an operation of the rank itself")
    if process and at.seconds is None and at.rank is None:
        raise PlanError(table.key("at.rank"), None, f"whose step or operation it is: the {process} has none")
    if kind.inside and at.rank is not None:
        raise PlanError(table.key("at.rank"), at.rank, f"none: {kind.name} is done by the rank itself")
    settings = _settings(table, kind)
    peers = cast("list[int]", settings.get("peers", []))
    if any(of_ranks and one >= of_ranks for one in peers):
        raise PlanError(table.key("peers"), peers, f"ranks below {of_ranks}, as the plan's ranks says")
    _check_sides(table, kind, ranks, settings, of_ranks)
    fault = Fault(
        kind=kind.name,
        at=at,
        ranks=ranks,
        process=process,
        times=table.whole("times", 1, 1) or 1,
        settings=settings,
    )
    table.end()
    return fault


def _check_sides(table: _Table, kind: Kind, ranks: Sequence[int], settings: Mapping[str, Value], of_ranks: int) -> None:
    if not kind.on_both_sides:
        return
    others = cast("list[int]", settings["others"])
    if not others and not of_ranks:
        raise PlanError(table.key("others"), others, "the other side, for the plan does not say its ranks")
    if set(others) & set(ranks) or any(of_ranks and one >= of_ranks for one in others):
        raise PlanError(table.key("others"), others, f"other ranks than {list(ranks)}, of those that the job has")
    if len(ranks) == of_ranks:
        raise PlanError(table.key("rank"), list(ranks), "one side: somebody has to be on the other")


def _trigger(table: _Table, of_ranks: int) -> Trigger:
    at = Trigger(
        seconds=table.seconds("seconds", None),
        step=table.whole("step", None, 1),
        op=table.text("op", "", ("", "any", *OPERATIONS)) or None,
        point=table.text("point", "", ("", *POINTS)) or None,
        count=table.whole("count", 1, 1) or 1,
        moment=table.text("moment", "before", MOMENTS),
        start=table.whole("start", None, 1),
        rank=table.whole("rank", None),
    )
    table.end()
    said = [one for one in (at.seconds, at.op, at.point) if one is not None]
    if len(said) > 1 or (at.seconds is not None and at.step is not None):
        raise PlanError(table.name, "several", "one of seconds, op and point; step goes with op and point")
    if not said and at.step is None:
        raise PlanError(table.name, "nothing", "one of seconds, step, op and point: at = { step = 20 }")
    if at.moment != "before" and at.op is None:
        raise PlanError(table.key("moment"), at.moment, "none: it is for operations")
    if at.count > 1 and not (at.op or at.point):
        raise PlanError(table.key("count"), at.count, "none: it counts operations or points")
    for name, value in (("rank", at.rank), ("start", at.start)):
        if at.seconds is not None and value is not None:
            raise PlanError(table.key(name), value, "none: time is the same for all")
    if at.rank is not None and of_ranks and at.rank >= of_ranks:
        raise PlanError(table.key("rank"), at.rank, f"a rank below {of_ranks}, as the plan's ranks says")
    return at


def _ranks(key: str, given: object, of_ranks: int) -> tuple[int, ...]:
    if given is None:
        return ()
    ranks = []
    for one in given if isinstance(given, list) else [given]:
        if one == "any" and of_ranks:
            ranks.append(ANY)
        elif isinstance(one, int) and not isinstance(one, bool) and 0 <= one < (of_ranks or MOST_RANKS):
            ranks.append(one)
        else:
            most = f" below {of_ranks}, as the plan's ranks says" if of_ranks else ""
            anybody = ', or "any"' if of_ranks else '; for "any" the plan has to say its ranks'
            raise PlanError(key, given, f"a rank{most}, a list of them{anybody}")
    if len(set(ranks) - {ANY}) != len([one for one in ranks if one != ANY]):
        raise PlanError(key, given, "each rank once")
    if not ranks:
        raise PlanError(key, given, "at least one rank")
    return tuple(ranks)


def _settings(table: _Table, kind: Kind) -> dict[str, Value]:
    return {
        setting.name: _value(table.key(setting.name), setting, table.take(setting.name, setting.default))
        for setting in kind.settings
    }


def _value(key: str, setting: Setting, given: Any) -> Value:
    form = setting.form
    if form is Form.SECONDS:
        return _seconds(key, given)
    is_number = isinstance(given, (int, float)) and not isinstance(given, bool)
    fits = {
        Form.COUNT: isinstance(given, int) and is_number and given >= 0,
        Form.SHARE: is_number and 0 < given <= 1,
        Form.FLAG: isinstance(given, bool),
        Form.CHOICE: given in setting.choices,
        Form.RANKS: isinstance(given, list) and all(isinstance(one, int) and one >= 0 for one in given),
    }[form]
    if not fits:
        among = f" {', '.join(setting.choices)}" if setting.choices else ""
        raise PlanError(key, given, f"{form.value}{among}")
    return cast("Value", given)


def _seconds(key: str, given: object) -> float:
    if not isinstance(given, (int, float)) or isinstance(given, bool) or not 0 <= given < math.inf:
        raise PlanError(key, given, Form.SECONDS.value)
    return float(given)


def _positive(key: str, given: float | None) -> float:
    if not given:
        raise PlanError(key, given, "seconds, more than 0")
    return given


def _expectation(table: _Table) -> Expectation:
    violations = table.take("violations", [])
    if not isinstance(violations, list) or not all(one in INVARIANTS for one in violations):
        raise PlanError("expect.violations", violations, f"a list of {', '.join(INVARIANTS)}")
    expect = Expectation(
        outcome=table.text("outcome", "completes", OUTCOMES),
        injected=table.text("injected", "all", INJECTED),
        recovery=_positive("expect.recovery", table.seconds("recovery", 15.0)),
        violations=tuple(violations),
    )
    table.end()
    return expect


def as_table(plan: Plan) -> dict[str, Any]:
    """What :func:`parse` reads the same plan from; JSON and TOML can hold it."""
    return {
        "name": plan.name,
        **({"about": plan.about} if plan.about else {}),
        "seed": plan.seed,
        "ranks": plan.ranks,
        "duration": plan.duration,
        **({"hosts": plan.hosts} if plan.hosts else {}),
        **({"steps": plan.steps} if plan.steps else {}),
        "fault": [_fault_table(fault) for fault in plan.faults],
        "expect": {
            "outcome": plan.expect.outcome,
            "injected": plan.expect.injected,
            "recovery": plan.expect.recovery,
            "violations": list(plan.expect.violations),
        },
    }


def _fault_table(fault: Fault) -> dict[str, Any]:
    said: dict[str, Any] = {"kind": fault.kind}
    if fault.process:
        said["process"] = fault.process
    else:
        said["rank"] = ["any" if rank == ANY else rank for rank in fault.ranks]
    default = Trigger()
    said["at"] = {name: value for name, value in vars(fault.at).items() if value != getattr(default, name)}
    if fault.times > 1:
        said["times"] = fault.times
    return {**said, **fault.settings}
