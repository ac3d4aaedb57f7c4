"""Writes a plan as TOML: tables of plain values, as plans are."""

from __future__ import annotations

import json
from typing import Any

from pycomms.chaos.core.parse import as_table
from pycomms.chaos.core.plan import Plan, words


def to_toml(plan: Plan) -> str:
    said = as_table(plan)
    faults = said.pop("fault")
    expect = said.pop("expect")
    lines = [f"{name} = {_value(value)}" for name, value in said.items()]
    lines += ["", "[expect]", *(f"{name} = {_value(value)}" for name, value in expect.items())]
    for fault, given in zip(plan.faults, faults, strict=True):
        lines += ["", f"# {words(fault)}", "[[fault]]", *(f"{name} = {_value(value)}" for name, value in given.items())]
    return "\n".join(lines) + "\n"


def _value(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{name} = {_value(one)}" for name, one in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(_value, value)) + "]"
    if isinstance(value, str):
        return json.dumps(value)  # a basic string of TOML has the same escapes
    return str(value).lower() if isinstance(value, bool) else repr(value)
