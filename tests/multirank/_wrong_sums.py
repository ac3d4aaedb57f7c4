"""Ranks of `pycomms bench` whose gloo forgets to add."""

from __future__ import annotations

from collections.abc import Sequence

from pycomms.bench.ranks import torch_rank
from pycomms.bench.ranks.operations import Buffer, Call


class _Forgetful(torch_rank.TorchEndpoint):
    def all_reduce(self, data: Buffer) -> Call:
        right = super().all_reduce(data)
        return (lambda: None) if self.backend == "gloo" else right


def main(arguments: Sequence[str]) -> None:
    torch_rank.main(arguments, _Forgetful)
