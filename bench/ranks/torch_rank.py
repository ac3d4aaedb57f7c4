"""A rank of a torch.distributed backend: ours, gloo, or the one that does nothing. It has windows, too.

python -m bench.ranks.torch_rank [--empty-library L] and the options of pycomms.bench.ranks.torch_rank
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

import pycomms
from bench.ranks.one_sided import TABLE
from pycomms.bench.ranks import torch_rank
from pycomms.bench.ranks.loop import Rank
from pycomms.bench.ranks.operations import Unsupported


class Endpoint(torch_rank.TorchEndpoint):
    def window(self, nbytes: int) -> Any:
        if self.backend != "nccl2":
            raise Unsupported("it has no windows")
        from bench.ranks.torch_window import TorchWindow

        return TorchWindow(nbytes)


def register(contestant: str, empty_library: str) -> tuple[str, str]:
    """Makes the backend known to torch; its name there, and its version."""
    if contestant == "nccl2":
        return "nccl2", f"pycomms {pycomms.__version__}"
    if contestant == "empty":
        from bench.ranks import empty_backend

        return empty_backend.register(Path(empty_library)), f"torch {torch.__version__}"
    return torch_rank.BACKENDS[contestant]()


def main() -> None:
    parser = torch_rank.parser()
    parser.add_argument("--empty-library", default="")
    given = parser.parse_args()
    torch_rank.prepare(given)
    backend, version = register(given.contestant, given.empty_library)
    rank = Rank(Endpoint(backend, given), TABLE, verify=given.contestant != "empty")
    torch_rank.take_part(given, rank, version)


if __name__ == "__main__":
    main()
