"""The MPI of this environment, imported without being initialised: first the pinning, then the library's threads.

`from bench.ranks.mpi_library import MPI`, and never from mpi4py itself, which would initialise it at once.
"""

from __future__ import annotations

import mpi4py

mpi4py.rc.initialize = False

from mpi4py import MPI  # noqa: E402  # behind that line

__all__ = ["MPI"]
