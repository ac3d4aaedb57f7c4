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
from torch._C._distributed_c10d import Work

_TAG = 0x5E_9A0B
# A message is one page, which begins with the length of the text, and what does not fit into it.
_PAGE_BYTES = 4096
_LENGTH_BYTES = 8


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
    first, others = members[0], members[1:]
    if group.rank() != first:
        sending = _send(group, first, json.dumps(own))
        told = _Letter(group, first).text(deadline)
        _finish(sending, deadline)
    else:
        letters = [_Letter(group, member) for member in others]
        told = f"[{', '.join([json.dumps(own), *(letter.text(deadline) for letter in letters)])}]"
        _finish([work for member in others for work in _send(group, member, told)], deadline)
    listed: list[Any] = json.loads(told)
    return listed


def _send(group: dist.ProcessGroup, to: int, text: str) -> list[Work]:
    content = text.encode()
    page = bytearray(_PAGE_BYTES)
    page[:_LENGTH_BYTES] = len(content).to_bytes(_LENGTH_BYTES, "little")
    page[_LENGTH_BYTES:] = content[: _PAGE_BYTES - _LENGTH_BYTES].ljust(_PAGE_BYTES - _LENGTH_BYTES)
    rest = content[_PAGE_BYTES - _LENGTH_BYTES :]
    parts = [page, bytearray(rest)] if rest else [page]
    return [group.send([torch.frombuffer(part, dtype=torch.uint8)], to, _TAG) for part in parts]


def _finish(sending: Sequence[Work], deadline: Deadline) -> None:
    for work in sending:
        work.wait(deadline.left())


class _Letter:
    """A message that is to come."""

    def __init__(self, group: dist.ProcessGroup, sender: int) -> None:
        self._group = group
        self._sender = sender
        self._page = torch.empty(_PAGE_BYTES, dtype=torch.uint8)
        self._work = group.recv([self._page], sender, _TAG)

    def text(self, deadline: Deadline) -> str:
        self._work.wait(deadline.left())
        page = self._page.numpy().tobytes()
        length = int.from_bytes(page[:_LENGTH_BYTES], "little")
        content = page[_LENGTH_BYTES : _LENGTH_BYTES + length]
        if len(content) < length:
            rest = torch.empty(length - len(content), dtype=torch.uint8)
            self._group.recv([rest], self._sender, _TAG).wait(deadline.left())
            content += rest.numpy().tobytes()
        return content.decode()
