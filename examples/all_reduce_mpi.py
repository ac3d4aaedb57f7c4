"""torch.distributed under mpirun, beside MPI itself:

    mpirun -n 4 python examples/all_reduce_mpi.py

Both libraries add the same numbers, and the program compares. It needs mpi4py and an MPI library: pip install
'pycomms[mpi]', and the system's MPI or a wheel such as mpich.
"""

import sys

import torch
import torch.distributed as dist
from mpi4py import MPI

from pycomms.process_group import from_mpi


def main() -> int:
    place = from_mpi()
    tensor = torch.arange(1000, dtype=torch.float64) * (place.rank + 1)
    expected = torch.empty_like(tensor)
    MPI.COMM_WORLD.Allreduce(tensor.numpy(), expected.numpy())
    dist.all_reduce(tensor)
    same = torch.equal(tensor, expected)  # whole numbers: no rounding, in whatever order they are added
    print(
        f"rank {place.rank} of {place.world_size}, {place.local_rank} on its host: {'equal' if same else 'DIFFERENT'}"
    )
    dist.destroy_process_group()  # before MPI ends
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
