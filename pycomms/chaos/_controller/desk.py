"""Where the processes of the job report: a Unix socket in a folder of this user alone, and a token."""

from __future__ import annotations

import asyncio
import hmac
import json
import secrets
import shutil
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from pycomms.chaos._controller.processes import Target

_HELLO_S = 10.0
_LONGEST = 1 << 20


class Member:
    """A worker that is connected."""

    def __init__(self, hello: dict[str, Any], target: Target, writer: asyncio.StreamWriter) -> None:
        self.pid: int = hello["pid"]
        self.rank: int = hello["rank"]
        self.incarnation: int = hello["incarnation"]
        self.world: int = hello["world"]
        self.target = target
        self._writer = writer

    @property
    def who(self) -> dict[str, int]:
        return {"pid": self.pid, "rank": self.rank, "incarnation": self.incarnation}

    def say(self, said: dict[str, Any]) -> None:
        with suppress(OSError, RuntimeError):
            self._writer.write(json.dumps(said).encode() + b"\n")


class Desk:
    """For one event loop. Calls what it was given when a worker comes, says something, and is gone."""

    def __init__(
        self,
        came: Callable[[Member, float], None],
        said: Callable[[Member, dict[str, Any]], None],
        went: Callable[[Member], None],
    ) -> None:
        self.door = Path(tempfile.mkdtemp(prefix="pycomms-chaos-"))
        self.members: dict[int, Member] = {}  # by pid
        self._token = secrets.token_hex(32)
        token = self.door / "token"
        token.touch(mode=0o600)
        token.write_text(self._token)
        self._came, self._said, self._went = came, said, went
        self._server: asyncio.Server | None = None
        self._visits: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        self._server = await asyncio.start_unix_server(self._visit, str(self.door / "door"), limit=_LONGEST)

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        for visit in list(self._visits):
            visit.cancel()
        await asyncio.gather(*self._visits, return_exceptions=True)
        for member in self.members.values():
            member.target.close()
        self.members.clear()
        shutil.rmtree(self.door, ignore_errors=True)

    async def drained(self, within: float) -> None:
        """All have said what they had to say, and are gone."""
        if self._visits:
            await asyncio.wait(self._visits, timeout=within)

    def of_rank(self, rank: int) -> Member | None:
        """The newest process that has this rank."""
        return next((one for one in reversed(self.members.values()) if one.rank == rank), None)

    async def _visit(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is not None:
            self._visits.add(task)
        member: Member | None = None
        try:
            member = await self._admit(reader, writer)
            while member is not None:
                line = await reader.readline()
                if not line.endswith(b"\n"):
                    break
                self._said(member, json.loads(line))
        except (OSError, ValueError, asyncio.CancelledError):
            pass  # as if it had ended: what it has said before is in the journal
        finally:
            writer.close()
            if member is not None and self.members.pop(member.pid, None) is not None:
                self._went(member)
                member.target.close()
            if task is not None:
                self._visits.discard(task)

    async def _admit(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Member | None:
        """None: a stranger."""
        try:
            hello = json.loads(await asyncio.wait_for(reader.readline(), _HELLO_S))
            if not hmac.compare_digest(str(hello["token"]), self._token):
                return None
            member = Member(hello, Target(hello["pid"]), writer)
        except (TimeoutError, asyncio.TimeoutError, ValueError, KeyError, TypeError, ProcessLookupError):
            return None
        self.members[member.pid] = member
        self._came(member, hello["t"])
        return member
