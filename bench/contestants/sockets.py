"""The limit of windows between hosts: the same bytes over one bare TCP connection, with nothing around it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bench.contestants.base import Setting, Unavailable, free_port, python_rank
from bench.group import Launch
from bench.plan import ONE_SIDED, Op


@dataclass(frozen=True)
class Sockets:
    name: str = "sockets"

    def supports(self, op: Op, world: int) -> bool:
        return world == 2 and op in ONE_SIDED and op is not Op.RMA_COPY

    def launches(self, setting: Setting) -> Sequence[Launch]:
        if not setting.hosts:
            raise Unavailable("it is a limit between hosts")
        port = free_port()
        return [
            Launch(
                argv=setting.place(
                    rank,
                    python_rank(
                        "socket_rank",
                        socket=setting.socket,
                        contestant=self.name,
                        rank=rank,
                        address=setting.address,
                        port=port,
                        cores=setting.cores,
                    ),
                ),
                env=setting.env(),
            )
            for rank in range(setting.world)
        ]
