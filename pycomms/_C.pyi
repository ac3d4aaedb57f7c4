import enum
from datetime import timedelta

from torch._C._distributed_c10d import Backend as _Backend
from torch._C._distributed_c10d import Store

class Connect(enum.Enum):
    BACKGROUND = ...
    EAGER = ...
    LAZY = ...

class Options(_Backend.Options):
    def __init__(
        self,
        *,
        timeout: timedelta = ...,
        connect: Connect = ...,
        is_high_priority_stream: bool = ...,
        blocking_wait: bool = ...,
    ) -> None: ...
    connect: Connect
    is_high_priority_stream: bool
    blocking_wait: bool

class Backend(_Backend):
    def split(self, store: Store, ranks: list[int], options: Options) -> Backend | None: ...
    def perform_nocolor_split(self, device: object = None) -> None: ...

def create(
    store: Store, rank: int, size: int, options: Options, engine_path: str, vector_width: str = ...
) -> Backend: ...
def leave_all_groups() -> None: ...
def engine_version(path: str) -> int: ...

torch_version: str
