"""pycomms: a collective-communications backend for PyTorch that does not hang silently.

``import pycomms`` registers the backend ``nccl2`` with torch.distributed; ``init_process_group("pycomms")`` needs no
import at all. Importing starts no thread, opens no socket and creates no CUDA context.
"""

from pycomms._register import builtin_nccl2, register
from pycomms._version import __version__
from pycomms._versions import NcclVersion, nccl_version
from pycomms.errors import (
    CollectiveMismatch,
    CollectiveTimeout,
    CommunicatorClosed,
    CommunicatorRevoked,
    EngineError,
    Interrupted,
    NotFinite,
    PeerFailure,
    PycommsError,
)
from pycomms.process_group import (
    Connect,
    NanCheck,
    Options,
    generation,
    on_regroup,
    regroup,
    regroup_handle,
    shrink_group,
)

__all__ = [
    "CollectiveMismatch",
    "CollectiveTimeout",
    "CommunicatorClosed",
    "CommunicatorRevoked",
    "Connect",
    "EngineError",
    "Interrupted",
    "NanCheck",
    "NcclVersion",
    "NotFinite",
    "Options",
    "PeerFailure",
    "PycommsError",
    "__version__",
    "builtin_nccl2",
    "generation",
    "nccl_version",
    "on_regroup",
    "register",
    "regroup",
    "regroup_handle",
    "shrink_group",
]

register()
