"""What this process has to remember of the default group from one regroup to the next: which memberships it has been
in, and as which rank. Main thread of the program only.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

import torch.distributed as dist
from torch._C._distributed_c10d import Store

from pycomms import _C
from pycomms.process_group._recipes import Recipe

_KEY = "pycomms/membership"


@dataclass
class Memory:
    """Of one default group. `recipes` are of its subgroups, as far as they have been looked at."""

    membership: str = ""
    generation: int = 0  # that the membership is of
    settled: bool = False  # has been in a group with others, and knows which subgroups are its own
    ranks: dict[str, int] = field(default_factory=dict)  # by membership
    recipes: WeakKeyDictionary[dist.ProcessGroup, Recipe] = field(default_factory=WeakKeyDictionary)

    def learn(self, membership: str, generation: int, rank: int) -> None:
        self.membership = membership
        self.generation = generation
        self.ranks[membership] = rank

    def settle(self) -> None:
        """All recipes of this process are of the present membership: nobody will ask it for earlier ranks."""
        self.settled = True
        self.ranks = {self.membership: self.ranks[self.membership]}


_memories: WeakKeyDictionary[dist.ProcessGroup, Memory] = WeakKeyDictionary()


def agree_on_first(group: dist.ProcessGroup, store: Store, rank: int) -> None:
    """Names the membership that a default group is made with, the same on all members. Now, for the store may be gone
    when the name is wanted.
    """
    memory = _memories.setdefault(group, Memory())
    memory.learn(store.compare_set(_KEY, "", secrets.token_hex(8)).decode(), 0, rank)
    memory.settled = True


def memory_of(group: dist.ProcessGroup, backend: _C.Backend) -> Memory:
    """Of a default group. A membership that we know nothing of, such as one that torch's own `_reconfigure` made, is
    named after the uuid that its members have in common.
    """
    memory = _memories.setdefault(group, Memory())
    alone = backend.generation == 0 and backend.size() == 1
    if not memory.membership or memory.generation != backend.generation:
        uuid = backend.regroup_handle().split(":")[4]
        memory.learn(secrets.token_hex(8) if alone else f"uuid {uuid}", backend.generation, backend.rank())
        memory.settled = memory.settled or not alone
    return memory
