"""Python programs without the import of torch: `WarmPython.executable` stands for `python` on a command line.

Most of what a small distributed program costs is to import torch, 4 s of a core for each rank, to import its compiler
when the first optimizer is made, 3 more, and to take all that down. Here a server (`_server.py`) imports them once. The
executable (`_client.py`) hands its arguments, environment, folder, open files and namespaces to the server, which forks
a process that goes on with them as an interpreter would, to the very end. The executable ends as that process does, and
that process is killed when the executable is. What the programs do, what is asserted of them and who starts them
(torchrun, a host of a cluster) is as it was.

What differs from a cold start: variables that torch reads while it is imported are the server's, and the process id is
not the one of the executable. Tests of how an interpreter starts need a cold one.
"""

from __future__ import annotations

import os
import select
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

_HERE = Path(__file__).parent
_START_DEADLINE_S = 90.0
_END_DEADLINE_S = 10.0


class WarmPython:
    """Owns the server. Used by one thread; the executable may be started any number of times at once."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="pycomms-warm-"))
        door = self._folder / "door"
        self.executable = self._folder / "python"
        client = shlex.join([sys.executable, "-I", "-S", str(_HERE / "_client.py"), str(door)])
        self.executable.write_text(f'#!/bin/sh\nexec {client} "$@"\n')
        self.executable.chmod(0o700)
        self._server = subprocess.Popen(
            [sys.executable, str(_HERE / "_server.py"), str(door)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            start_new_session=True,  # Ctrl-C is for us to handle
        )

    def await_ready(self) -> None:
        assert self._server.stdout is not None
        if not select.select([self._server.stdout], [], [], _START_DEADLINE_S)[0]:
            raise RuntimeError(f"the server of warm interpreters did not start within {_START_DEADLINE_S:.0f} s")
        if self._server.stdout.readline() != b"ready\n":
            raise RuntimeError(f"the server of warm interpreters ended with {self._server.wait(_END_DEADLINE_S)}")

    def close(self) -> None:
        """Ends the server, which kills what still runs."""
        self._server.communicate(timeout=_END_DEADLINE_S)
        shutil.rmtree(self._folder)
