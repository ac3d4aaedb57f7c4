"""Ends the job where its controller was killed and could not: a process of its own, that waits at a pipe.

python -m pycomms.chaos._controller.keeper DOOR
"""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from contextlib import suppress

from pycomms.chaos._controller.processes import MARK, Marked

_GRACE_S = 5.0
_MODULE = "pycomms.chaos._controller.keeper"
_DONE = b"done"


class Keeper:
    """The controller's end of it."""

    def __init__(self, door: str) -> None:
        """Raises OSError where it cannot be started."""
        self._process = subprocess.Popen(
            [sys.executable, "-m", _MODULE, door],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # whatever ends the controller's is not for it
        )

    def dismiss(self) -> None:
        """The job has ended, and nothing is left of it."""
        with suppress(subprocess.TimeoutExpired):
            self._process.communicate(_DONE, _GRACE_S)
        self._process.kill()
        self._process.wait(_GRACE_S)


def main(door: str) -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    if sys.stdin.buffer.read() != _DONE:
        shutil.rmtree(door, ignore_errors=True)
        Marked(MARK, door).kill_all(_GRACE_S)


if __name__ == "__main__":
    main(sys.argv[1])
