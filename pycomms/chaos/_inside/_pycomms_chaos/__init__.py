"""Inside of a process of a job: tells the controller what it does, and does to itself what the plan says.

Knows only the standard library, and torch where the program has imported it: it must not make the job another one.
"""

from __future__ import annotations

from . import _environment, _hooks
from ._clock import Clock
from ._worker import Worker

worker: Worker | None = None
"""None: nobody wants anything of this process."""


def start() -> None:
    """Watches from now on, if the environment says that a controller wants it. Connects when the program shows that it
    is a worker: by its first call of torch.distributed, or of a session.
    """
    global worker
    door = _environment.door()
    if worker is None and door is not None:
        _environment.pretend_host()
        if _environment.clocks_may_jump():
            Clock(door).install()
        worker = Worker(door)
        _hooks.install(worker)
