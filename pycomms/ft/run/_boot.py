"""The first program of every child: sees to it that the child ends with its parent, then becomes what it is to run.

    python -I -S _boot.py PARENT PROGRAM ARGUMENT…

Runs for a few milliseconds and knows nothing of pycomms: what comes after it is as if it had been started alone.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1
_NOT_FOUND, _NOT_EXECUTABLE, _ORPHAN = 127, 126, 125


def main(parent: int, command: list[str]) -> int:
    if not die_with(parent):
        return _ORPHAN
    try:
        os.execvp(command[0], command)
    except FileNotFoundError:
        print(f"pycomms run: no such program: {command[0]}", file=sys.stderr)
        return _NOT_FOUND
    except OSError as error:
        print(f"pycomms run: cannot run {command[0]}: {error.strerror}", file=sys.stderr)
        return _NOT_EXECUTABLE


def die_with(parent: int) -> bool:
    """False if it is dead already. The kernel keeps this through exec, and forgets it in children."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG) failed")
    return os.getppid() == parent


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2:]))
