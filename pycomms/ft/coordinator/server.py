"""A coordinator, put together: the service, the decisions, the log, and the page for people. For the event loop."""

from __future__ import annotations

import asyncio
import logging
import resource
import secrets
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

import grpc
import grpc.aio

from pycomms.ft.coordinator import calls
from pycomms.ft.coordinator.auth import Guard
from pycomms.ft.coordinator.conductor import Conductor
from pycomms.ft.coordinator.delivery import Delivery
from pycomms.ft.coordinator.epoch_log import EpochLog
from pycomms.ft.coordinator.launching import Launching
from pycomms.ft.coordinator.outbox import Outbox
from pycomms.ft.coordinator.service import Limits, Service
from pycomms.ft.coordinator.tally import Tally
from pycomms.ft.coordinator.tls import Tls
from pycomms.ft.core.launch import JobState
from pycomms.ft.core.messages import EpochId
from pycomms.ft.core.quorum import Quorum
from pycomms.ft.core.rule import Rule
from pycomms.ft.wire import encode

if TYPE_CHECKING:
    from typing_extensions import Self

    from pycomms.ft.coordinator.status import Snapshot
    from pycomms.ft.coordinator.status_server import StatusServer

_LOG = logging.getLogger("pycomms.ft")
_END_WITHIN = 2.0
_IDLE_MS = 30_000
_HANDSHAKE_MS = 5_000


class ListenError(Exception):
    """Nobody can connect: the port is taken, or the certificate is none."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Attributes:
    listen: host:port for the hosts of the job; port 0 is any that is free.
    token: of the job.
    http: host and port of the page; None: there is none.
    state: folder of the epoch log; None: a coordinator that comes back learns from its members alone.
    stands_by: it takes over a job that another coordinator has begun, and begins none.
    """

    listen: str
    token: bytes
    rule: Rule
    http: tuple[str, int] | None = None
    state: Path | None = None
    tls: Tls | None = None
    stands_by: bool = False
    limits: Limits = field(default_factory=Limits)


class Coordinator:
    """async with Coordinator(settings) as it: … serves from the first line of the block to its last.

    Attributes:
        address: where it listens, host:port.
        http: address of its page, or an empty text.
        superseded: set when a host has been with a later coordinator: this one has to end, and may begin again.

    Raises:
        ListenError: see there.
        LogInUseError: another coordinator has the state folder.
        OSError: the state folder cannot be written.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.address = ""
        self.http = ""
        self.superseded = asyncio.Event()

    async def __aenter__(self) -> Self:
        settings = self._settings
        _raise_descriptor_limit()
        log = EpochLog(settings.state) if settings.state is not None else None
        boot = log.next_boot(time.time()) if log is not None else int(time.time())
        resumed = settings.stands_by or (log is not None and log.has_formed)
        if log is not None:
            log.append(EpochId(boot, 0))
        self._log = log
        self._executor = ThreadPoolExecutor(1, "pycomms-epoch-log")
        self._tally = Tally()
        self._outboxes: dict[str, Outbox] = {}
        delivery = Delivery(self._outboxes, self._tally)
        quorum = Quorum(settings.rule, boot, resumed=resumed)
        self._conductor = Conductor(quorum, delivery, self._tally, log, self._executor)
        guard = Guard(settings.token)
        silence = settings.rule.timeouts.host_silence
        self._launching = Launching(
            secrets.token_hex(4), silence, stands_by=settings.stands_by, tell=self._tell_job, renew=self._renew
        )
        self._service = Service(
            self._conductor,
            delivery,
            self._launching,
            self._outboxes,
            self._tally,
            guard,
            settings.limits,
            self._give_way,
        )
        self._started = time.time()
        self._boot = boot
        self._status: StatusServer | None = None
        try:
            self._server = await self._listen()
            if settings.http is not None:
                from pycomms.ft.coordinator.status_server import StatusServer

                self._status = StatusServer(self.snapshot, *settings.http)
                self.http = self._start_status(self._status)
        except BaseException:
            await self._stop()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stop()

    def snapshot(self) -> Snapshot:
        """What the page shows, as of now."""
        from pycomms.ft.coordinator.status import Snapshot

        return Snapshot.take(
            view=self._conductor.view(),
            tally=self._tally,
            hosts=self._outboxes.values(),
            now=self._conductor.now(),
            wall=time.time(),
            started=self._started,
            boot=self._boot,
            address=self.address,
            rule=self._settings.rule,
        )

    def _give_way(self, boot: int) -> None:
        """The next one with this log comes after that boot."""
        _LOG.warning("pycomms.ft: hosts were with coordinator %d, which is later than this one, %d", boot, self._boot)
        if self._log is not None:
            self._log.append(EpochId(boot, 0))
        self.superseded.set()

    def _tell_job(self, host: str, job: JobState) -> None:
        if host in self._outboxes:
            self._outboxes[host].put(encode(job))

    def _renew(self) -> None:
        """All workers are new ones: nothing of what was decided for the old ones holds."""
        self._boot = max(self._boot + 1, int(time.time()))
        if self._log is not None:
            self._log.append(EpochId(self._boot, 0))
        self._conductor.renew(Quorum(self._settings.rule, self._boot))

    async def _listen(self) -> grpc.aio.Server:
        timeouts = self._settings.rule.timeouts
        server = grpc.aio.server(
            handlers=(self._service,),
            options=[
                *calls.options(timeouts),
                ("grpc.so_reuseport", 0),
                ("grpc.max_connection_idle_ms", _IDLE_MS),
                ("grpc.server_handshake_timeout_ms", _HANDSHAKE_MS),
                ("grpc.http2.min_ping_interval_without_data_ms", 50),
                ("grpc.keepalive_permit_without_calls", 1),
            ],
        )
        tls = self._settings.tls
        listen = self._settings.listen
        try:
            if tls is None:
                port = server.add_insecure_port(listen)
            else:
                port = server.add_secure_port(listen, _credentials(tls))
        except (RuntimeError, OSError, ValueError) as error:
            raise ListenError(f"cannot listen at {listen}: {error}") from error
        await server.start()
        self.address = f"{listen.rpartition(':')[0]}:{port}"
        return server

    def _start_status(self, status: StatusServer) -> str:
        try:
            return status.start()
        except OSError as error:
            raise ListenError(str(error)) from error

    async def _stop(self) -> None:
        self._launching.stop()
        self._service.release()
        if self._status is not None:
            self._status.stop()
        server = getattr(self, "_server", None)
        if server is not None:
            await server.stop(_END_WITHIN)
        await self._conductor.stop()
        self._executor.shutdown(wait=False)
        if self._log is not None:
            self._log.close()


def _credentials(tls: Tls) -> grpc.ServerCredentials:
    if tls.cert is None or tls.key is None:
        raise ValueError("a coordinator with TLS needs a certificate and its key")
    ca = tls.ca.read_bytes() if tls.ca else None
    pair = (tls.key.read_bytes(), tls.cert.read_bytes())
    return grpc.ssl_server_credentials([pair], root_certificates=ca, require_client_auth=ca is not None)


def _raise_descriptor_limit() -> None:
    """A connection takes a descriptor, and the usual limit is 1,024."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
