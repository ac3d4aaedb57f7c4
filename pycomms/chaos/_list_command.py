"""``pycomms chaos list``."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence

from pycomms.chaos.core.kinds import KINDS, OPERATIONS, POINTS, Kind
from pycomms.chaos.core.parse import INVARIANTS


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="one JSON object instead of text")


def run(arguments: argparse.Namespace, command: Sequence[str]) -> int:
    print(_as_json() if arguments.json else _as_text())
    return 0


def _as_text() -> str:
    lines = ["faults:"]
    for kind in KINDS.values():
        lines.append(f"  {kind.name:12} {kind.what}{_notes(kind)}")
        for setting in kind.settings:
            choices = f" ({', '.join(setting.choices)})" if setting.choices else ""
            lines.append(f"  {'':14} {setting.name} = {json.dumps(setting.default)}: {setting.what}{choices}")
    lines += ["", "points of a session:", *(f"  {name:12} {what}" for name, what in POINTS.items())]
    lines += ["", f"operations: any, {', '.join(OPERATIONS)}", "", f"invariants: {', '.join(INVARIANTS)}"]
    return "\n".join(lines)


def _notes(kind: Kind) -> str:
    notes = [
        "needs the emulated CUDA" if kind.on_emulator else "",
        "changes an operation: at = { op = … }" if kind.on_operation else "",
        'also process = "coordinator" or "agent"' if kind.on_service else "",
    ]
    said = "; ".join(filter(None, notes))
    return f" [{said}]" if said else ""


def _as_json() -> str:
    return json.dumps(
        {
            "faults": {
                kind.name: {
                    "effect": kind.effect.value,
                    "what": kind.what,
                    "on_operation": kind.on_operation,
                    "on_service": kind.on_service,
                    "on_emulator": kind.on_emulator,
                    "settings": {
                        one.name: {"default": one.default, "what": one.what, "choices": list(one.choices)}
                        for one in kind.settings
                    },
                }
                for kind in KINDS.values()
            },
            "points": POINTS,
            "operations": list(OPERATIONS),
            "invariants": list(INVARIANTS),
        },
        indent=1,
    )
