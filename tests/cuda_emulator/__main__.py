"""Runs a Python program on the emulator: python -m tests.cuda_emulator [--aten] program.py [arguments]."""

from __future__ import annotations

import runpy
import sys

from . import load


def main() -> None:
    arguments = sys.argv[1:]
    with_aten = arguments[:1] == ["--aten"]
    if with_aten:
        del arguments[0]
    if not arguments:
        sys.exit(__doc__)
    emulator = load()
    if with_aten:
        emulator.install_aten()
    sys.argv = arguments
    runpy.run_path(arguments[0], run_name="__main__")


if __name__ == "__main__":
    main()
