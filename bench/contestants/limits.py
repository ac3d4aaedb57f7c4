"""The machine's limits: two processes and the memory, with no library between them (bench/native/limits.cpp)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bench.native_build import build_program
from launch._compiled import CompileError
from pycomms.bench.contestants import Setting, Unavailable
from pycomms.bench.group import Launch
from pycomms.bench.plan import ONE_SIDED, Op

WITHOUT_LIMIT = frozenset({Op.ALL_REDUCE_ASYNC, Op.INIT, *ONE_SIDED})


@dataclass(frozen=True)
class Limits:
    name: str = "limits"

    def supports(self, op: Op, world: int) -> bool:
        return world == 2 and op not in WITHOUT_LIMIT

    def launches(self, setting: Setting) -> Sequence[Launch]:
        if setting.world != 2:
            raise Unavailable("the limits are those of two processes")
        if setting.hosts:
            raise Unavailable("the limits are those of two processes on one host")
        try:
            program = build_program("limits", setting.cache)
        except CompileError as err:
            raise Unavailable(str(err)) from err
        return [Launch(argv=[str(program), str(setting.socket), setting.cores], env=setting.env())]
