"""Process groups of the ``nccl2`` backend: their options, and how they start where MPI starts the ranks."""

from pycomms._C import Connect, Options
from pycomms.process_group._mpi import Place, from_mpi

__all__ = ["Connect", "Options", "Place", "from_mpi"]
