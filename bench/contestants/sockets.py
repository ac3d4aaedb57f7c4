"""The limit of windows between hosts: the same bytes over a bare TCP connection (native/sockets.cpp)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bench.native_build import build_program
from launch._compiled import CompileError
from pycomms.bench.contestants import Setting, Unavailable, free_port
from pycomms.bench.group import Launch
from pycomms.bench.plan import ONE_SIDED, Op


@dataclass(frozen=True)
class Sockets:
    name: str = "sockets"

    def supports(self, op: Op, world: int) -> bool:
        return world == 2 and op in ONE_SIDED and op is not Op.RMA_COPY

    def launches(self, setting: Setting) -> Sequence[Launch]:
        if not setting.hosts:
            raise Unavailable("it is a limit between hosts")
        try:
            program = build_program("sockets", setting.cache)
        except CompileError as err:
            raise Unavailable(str(err)) from err
        where = [setting.address, str(free_port())]
        ranks = [[str(program), str(setting.socket), setting.cores, str(rank), *where] for rank in range(setting.world)]
        return [Launch(argv=setting.place(rank, argv), env=setting.env()) for rank, argv in enumerate(ranks)]
