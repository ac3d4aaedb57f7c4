"""Process groups of the ``nccl2`` backend: their options, and what torch.distributed does not do for them."""

from pycomms._C import Connect, NanCheck, Options
from pycomms.process_group._mpi import Place, from_mpi
from pycomms.process_group._regroup import generation, on_regroup, regroup, regroup_handle
from pycomms.process_group._shrink import shrink_group

__all__ = [
    "Connect",
    "NanCheck",
    "Options",
    "Place",
    "from_mpi",
    "generation",
    "on_regroup",
    "regroup",
    "regroup_handle",
    "shrink_group",
]
