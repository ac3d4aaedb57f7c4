"""What a session can raise, beside the errors of groups.

pycomms.ft.SessionError
├── JobEnded              the coordinator has ended the job, or this member is not wanted in it any more
├── CoordinatorLost       nobody has told what to do within the deadline
├── DeviceLost            the GPU of this process returns nothing but errors any more
├── NothingToRestoreFrom  no member has a whole state, or nobody some shard of it, and there is no checkpoint
└── StateMismatch         what was fetched or loaded does not fit the model, or is damaged
"""

from __future__ import annotations

__all__ = ["CoordinatorLost", "DeviceLost", "JobEnded", "NothingToRestoreFrom", "SessionError", "StateMismatch"]


class SessionError(RuntimeError):
    """Base of all: training cannot go on in this process."""


class JobEnded(SessionError):
    """The coordinator has ended the job, or has no place for this member."""


class CoordinatorLost(SessionError):
    """Nobody has said how to go on within the deadline."""


class DeviceLost(SessionError):
    """CUDA has an error that stays until the process ends. The others go on without this member, and a new process, if
    there is one, takes its place."""


class NothingToRestoreFrom(SessionError):
    """No member has a whole state: load a checkpoint on all."""


class StateMismatch(SessionError):
    """The state of another member, or of a checkpoint, does not fit this one's model, or is damaged."""
