"""The command ``pycomms``: each subcommand is loaded when it is asked for."""

from __future__ import annotations

import sys
from importlib import import_module

from pycomms._command_line import USAGE

_SUBCOMMANDS = {
    "doctor": ("pycomms.doctor._command", "what works on this machine, and what to do about what does not"),
    "bench": ("pycomms.bench._command", "this backend beside the others, on this machine"),
    "chaos": ("pycomms.chaos._command", "faults for a job, on purpose, and whether it gets over them"),
    "fr": ("pycomms.flight_recorder._command", "flight recorder: what the ranks of a job did, and why it stopped"),
    "coordinator": ("pycomms.ft.coordinator._command", "says who is in a job whose members may die and come"),
    "run": ("pycomms.ft.run._command", "start the workers of a job, and those that die again: torchrun's options"),
}


def main(arguments: list[str] | None = None) -> int:
    """Runs ``pycomms SUBCOMMAND …`` and returns its exit code."""
    given = sys.argv[1:] if arguments is None else arguments
    if given and given[0] in _SUBCOMMANDS:
        home, _ = _SUBCOMMANDS[given[0]]
        code: int = import_module(home).main(given[1:])
        return code
    known = "\n".join(f"  {name:12} {what}" for name, (_, what) in _SUBCOMMANDS.items())
    text = f"usage: pycomms SUBCOMMAND …\n\n{known}\n\npycomms SUBCOMMAND --help says more."
    if given and given[0] in ("-h", "--help"):
        print(text)
        return 0
    if given and given[0] == "--version":
        print(import_module("pycomms").__version__)
        return 0
    problem = f"pycomms: no subcommand {given[0]!r}\n" if given else ""
    print(f"{problem}{text}", file=sys.stderr)
    return USAGE


if __name__ == "__main__":
    sys.exit(main())
