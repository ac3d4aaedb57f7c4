"""What each of some members of a group has to say is told to all of them.

Through point-to-point messages with a tag of their own, by way of the first of them: collectives would leave their mark
on the sequence, which is 0 after a regroup, and a store may be gone, or was never shared.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

_TAG = 0x5E_9A0B


class Deadline:
    """One for many waits."""

    def __init__(self, after: timedelta) -> None:
        self._end = time.monotonic() + after.total_seconds()

    def left(self) -> timedelta:
        """At least a moment: what has come already is still taken in."""
        return timedelta(seconds=max(0.001, self._end - time.monotonic()))


def share(group: dist.ProcessGroup, members: Sequence[int], own: Any, deadline: Deadline) -> list[Any]:
    """What the members (ranks of `group`, in this order) have to say. JSON.

    Raises:
        pycomms.PeerFailure, pycomms.CollectiveTimeout: of the messages.
    """
    first, rank = members[0], group.rank()
    if rank != first:
        _send(group, first, own, deadline)
        told: list[Any] = _receive(group, first, deadline)
        return told
    told = [own if member == first else _receive(group, member, deadline) for member in members]
    for member in members[1:]:
        _send(group, member, told, deadline)
    return told


def _send(group: dist.ProcessGroup, to: int, what: Any, deadline: Deadline) -> None:
    text = torch.frombuffer(bytearray(json.dumps(what).encode()), dtype=torch.uint8)
    for tensor in (torch.tensor([len(text)]), text):
        group.send([tensor], to, _TAG).wait(deadline.left())


def _receive(group: dist.ProcessGroup, sender: int, deadline: Deadline) -> Any:
    length = torch.empty(1, dtype=torch.long)
    group.recv([length], sender, _TAG).wait(deadline.left())
    text = torch.empty(int(length), dtype=torch.uint8)
    group.recv([text], sender, _TAG).wait(deadline.left())
    return json.loads(bytes(text.numpy()))
