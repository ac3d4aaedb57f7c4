"""Writes a C++ file of stubs: each function named in a list says once that it is not emulated, and returns its error.

A function that is implemented must not be in the list: the linker refuses the second definition.
Usage: generate.py LIST OUT REPORTER, the last being the function that a stub calls.
"""

from __future__ import annotations

import sys
from pathlib import Path


def stubs(names: list[str], reporter: str) -> str:
    lines = [f'extern "C" int {reporter}(const char* function);', 'extern "C" {']
    lines += [
        f'__attribute__((visibility("default"))) int {name}() {{ return {reporter}("{name}"); }}' for name in names
    ]
    return "\n".join([*lines, "}", ""])


def main(source: Path, target: Path, reporter: str) -> None:
    names = [line.strip() for line in source.read_text().splitlines()]
    target.write_text(stubs([name for name in names if name and not name.startswith("#")], reporter))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])
