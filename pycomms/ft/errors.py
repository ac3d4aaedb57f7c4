"""What a session can raise, beside the errors of groups.

pycomms.ft.SessionError
├── JobEnded              the coordinator has ended the job, or this member is not wanted in it any more
│   └── AllDone           all others have trained to the end; uncaught, it ends the program with exit code 0
├── CoordinatorLost       nobody has told what to do within the deadline
├── DeviceLost            the GPU of this process returns nothing but errors any more
├── NothingToRestoreFrom  no member has a whole state, or nobody some shard of it, and there is no checkpoint
└── StateMismatch         what was fetched or loaded does not fit the model, or is damaged
"""

from __future__ import annotations

__all__ = [
    "AllDone",
    "CoordinatorLost",
    "DeviceLost",
    "JobEnded",
    "NothingToRestoreFrom",
    "SessionError",
    "StateMismatch",
]


class SessionError(RuntimeError):
    """Base of all: training cannot go on in this process."""


class JobEnded(SessionError):
    """The coordinator has ended the job, or has no place for this member."""


class AllDone(JobEnded, SystemExit):
    """The others have trained to the end, and this process has come too late to do so too.

    It has no trained model, so its program does not go on behind the loop; and nothing has failed, so it ends as with
    `sys.exit(0)` where nobody catches this.
    """

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.code = 0


class CoordinatorLost(SessionError):
    """Nobody has said how to go on within the deadline."""


class DeviceLost(SessionError):
    """CUDA has an error that stays until the process ends. The others go on without this member, and a new process, if
    there is one, takes its place."""


class NothingToRestoreFrom(SessionError):
    """No member has a whole state: load a checkpoint on all."""


class StateMismatch(SessionError):
    """The state of another member, or of a checkpoint, does not fit this one's model, or is damaged."""
