"""The page of a coordinator: a few read-only answers by HTTP, from a thread with an event loop of its own.
What makes them is imported when somebody asks, for a coordinator has to start fast.

It asks the coordinator's loop for a snapshot only when somebody looks, and then at most a few times a second.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pycomms.ft.coordinator.status import Snapshot

_PAGE = Path(__file__).with_name("status.html")
_FRESH_FOR = 0.25
_ANSWER_WITHIN = 2.0
_REQUEST_WITHIN = 5.0
_REQUEST_BYTES = 8192
_CONNECTIONS = 64
_HTML, _JSON, _TEXT = "text/html; charset=utf-8", "application/json", "text/plain; charset=utf-8"
_HEADERS = (
    "Cache-Control: no-store\r\n"
    "Connection: close\r\n"
    "Content-Security-Policy: default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
    "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'\r\n"
    "Referrer-Policy: no-referrer\r\n"
    "X-Content-Type-Options: nosniff\r\n"
)


class StatusServer:
    """take: makes a snapshot, on the loop that this is made on."""

    def __init__(self, take: Callable[[], Snapshot], host: str, port: int) -> None:
        self._take = take
        self._host, self._port = host, port
        self._asked = asyncio.get_running_loop()
        self._own = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="pycomms-status", daemon=True)
        self._listening = threading.Event()
        self._failure: OSError | None = None
        self._stop_request = asyncio.Event()
        self._open: set[asyncio.Task[None]] = set()
        self._last: Snapshot | None = None
        self._taking: asyncio.Task[Snapshot] | None = None

    def start(self) -> str:
        """Returns the address, as http://host:port. Raises OSError."""
        self._thread.start()
        if not self._listening.wait(_ANSWER_WITHIN):
            raise OSError(f"the status page does not start within {_ANSWER_WITHIN} s")
        if self._failure is not None:
            raise OSError(f"cannot serve the status page at {self._host}:{self._port}: {self._failure}")
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"http://{host}:{self._port}"

    def stop(self) -> None:
        if self._thread.is_alive():
            with suppress(RuntimeError):  # it has just ended
                self._own.call_soon_threadsafe(self._stop_request.set)
            self._thread.join(_ANSWER_WITHIN)

    def _run(self) -> None:
        try:
            self._own.run_until_complete(self._serve())
        finally:
            self._own.close()

    async def _serve(self) -> None:
        try:
            server = await asyncio.start_server(self._answer, self._host, self._port, limit=_REQUEST_BYTES)
        except OSError as error:
            self._failure = error
            return
        finally:
            if self._failure is not None:
                self._listening.set()
        self._port = server.sockets[0].getsockname()[1]
        self._listening.set()
        await self._stop_request.wait()
        server.close()
        for answering in self._open:
            answering.cancel()
        if self._open:
            await asyncio.wait(self._open, timeout=_ANSWER_WITHIN)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        try:
            if len(self._open) > _CONNECTIONS:
                await _reply(writer, "503 Service Unavailable", _TEXT, "too many connections\n")
                return
            head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), _REQUEST_WITHIN)
            method, _, rest = head.split(b"\r\n", 1)[0].decode("latin-1").partition(" ")
            path = rest.partition(" ")[0].partition("?")[0]
            status, kind, body = await self._page(method, path)
            await _reply(writer, status, kind, body, with_body=method != "HEAD")
        except (OSError, asyncio.TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # whoever asks that way gets no answer
        finally:
            writer.close()
            with suppress(OSError, asyncio.TimeoutError, asyncio.CancelledError):
                await asyncio.wait_for(writer.wait_closed(), _ANSWER_WITHIN)
            self._open.discard(task)

    async def _page(self, method: str, path: str) -> tuple[str, str, str]:
        if method not in ("GET", "HEAD"):
            return "405 Method Not Allowed", _TEXT, "this page can only be read\n"
        if path == "/":
            return "200 OK", _HTML, _PAGE.read_text()
        if path not in ("/healthz", "/metrics", "/status.json"):
            return "404 Not Found", _TEXT, "there are /, /healthz, /metrics and /status.json\n"
        try:
            snapshot = await self._snapshot()
        except asyncio.TimeoutError:
            return "503 Service Unavailable", _TEXT, f"the coordinator does not answer within {_ANSWER_WITHIN} s\n"
        if path == "/metrics":
            from pycomms.ft.coordinator import metrics

            return "200 OK", metrics.CONTENT_TYPE, metrics.text(snapshot)
        if path == "/status.json":
            import json

            return "200 OK", _JSON, json.dumps(snapshot.as_json())
        return "200 OK", _TEXT, "ok\n"

    async def _snapshot(self) -> Snapshot:
        """All who ask at the same time share one."""
        last = self._last
        if last is not None and time.monotonic() - last.now < _FRESH_FOR:
            return last
        if self._taking is None or self._taking.done():
            self._taking = self._own.create_task(self._fetch())
        return await asyncio.shield(self._taking)

    async def _fetch(self) -> Snapshot:
        async def take() -> Snapshot:
            return self._take()

        asked = asyncio.run_coroutine_threadsafe(take(), self._asked)
        self._last = await asyncio.wait_for(asyncio.wrap_future(asked), _ANSWER_WITHIN)
        return self._last


async def _reply(writer: asyncio.StreamWriter, status: str, kind: str, body: str, *, with_body: bool = True) -> None:
    data = body.encode(errors="backslashreplace")
    head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(data)}\r\n{_HEADERS}\r\n"
    writer.write(head.encode() + (data if with_body else b""))
    await asyncio.wait_for(writer.drain(), _REQUEST_WITHIN)
