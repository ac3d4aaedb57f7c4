"""A coordinator that does what a test says: hears what hosts and members say, and tells them what it is given."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

import grpc
import grpc.aio

from pycomms.ft.coordinator import calls
from pycomms.ft.coordinator.auth import AuthError, Guard, read_token
from pycomms.ft.coordinator.launching import Launching
from pycomms.ft.core.launch import HostReport, JobState
from pycomms.ft.wire import Hello, Message, Welcome, decode, encode

from ._running import PATIENCE_S

if TYPE_CHECKING:
    from typing_extensions import Self

_M = TypeVar("_M")


class FakeCoordinator:
    """Listens from the ``with`` on, at ``address``. Reports of hosts are answered as a real one answers them."""

    def __init__(self, token: Path, port: int = 0) -> None:
        self._guard = Guard(read_token(token))
        self.port = port
        self.heard: list[Message] = []
        self.refused = 0
        self.connections = 0
        self._news = threading.Condition()
        self._loop = asyncio.new_event_loop()
        self._hosts: dict[str, asyncio.Queue[bytes]] = {}
        self._launching: Launching
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._ending: asyncio.Event

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._ready.wait(PATIENCE_S)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._ending.set)
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive()

    def wait(self, kind: type[_M], count: int = 1, that: Callable[[_M], bool] = lambda message: True) -> list[_M]:
        """Waits until so many messages of this kind have been heard, and returns all of them."""

        def found() -> list[_M]:
            return [one for one in self.heard if isinstance(one, kind) and that(one)]

        with self._news:
            assert self._news.wait_for(lambda: len(found()) >= count, PATIENCE_S), (
                f"{len(found())} of {count} {kind.__name__} in {self.heard}"
            )
            return found()

    def send(self, host: str, message: Message, to: tuple[str, ...] = ()) -> None:
        """To a host, or to these members of it."""
        data = encode(message, to)
        self._loop.call_soon_threadsafe(lambda: self._hosts[host].put_nowait(data))

    def _tell(self, host: str, job: JobState) -> None:
        if host in self._hosts:
            self._hosts[host].put_nowait(encode(job))

    def _run(self) -> None:
        try:
            self._loop.run_until_complete(self._serve())
            self._loop.run_until_complete(_end_tasks())
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        finally:
            self._loop.close()

    async def _serve(self) -> None:
        self._ending = asyncio.Event()
        silence = timedelta(seconds=PATIENCE_S)
        self._launching = Launching("job", silence, tell=self._tell, renew=lambda: None)
        server = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
        _, service, method = calls.ATTACH.split("/")
        handler = grpc.stream_stream_rpc_method_handler(self._attach)
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, {method: handler}),))
        self.port = server.add_insecure_port(f"127.0.0.1:{self.port}")
        await server.start()
        self._ready.set()
        await self._ending.wait()
        self._launching.stop()
        await server.stop(0)

    async def _attach(self, words: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:
        try:
            host = self._guard.check(calls.ATTACH, context.invocation_metadata(), time.time())
        except AuthError as error:
            self.refused += 1
            await context.abort(grpc.StatusCode.UNAUTHENTICATED, str(error))
            return
        queue: asyncio.Queue[bytes] = asyncio.Queue()
        queue.put_nowait(encode(Welcome(boot=1)))
        self._hosts[host] = queue
        self.connections += 1
        listening = asyncio.ensure_future(self._listen(host, words))
        try:
            while not listening.done():
                getting = asyncio.ensure_future(queue.get())
                await asyncio.wait([getting, listening], return_when=asyncio.FIRST_COMPLETED)
                if getting.done():
                    yield getting.result()
                else:
                    getting.cancel()
        finally:
            listening.cancel()
            self._launching.disconnected(host)

    async def _listen(self, host: str, words: AsyncIterator[bytes]) -> None:
        async for data in words:
            message = decode(data).message
            if isinstance(message, HostReport):
                self._launching.heard(message)
            with self._news:
                if not isinstance(message, Hello):
                    self.heard.append(message)
                self._news.notify_all()


async def _end_tasks() -> None:
    left = asyncio.all_tasks() - {asyncio.current_task()}
    for task in left:
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)
