"""One run of the agent from beginning to end: what it needs is made, joined together, and taken down again."""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
import socket
import sys
from collections.abc import Mapping
from contextlib import AsyncExitStack, suppress
from datetime import timedelta
from functools import partial
from pathlib import Path

from pycomms.flight_recorder._places import base_folder, job_name
from pycomms.ft.coordinator.auth import read_token
from pycomms.ft.coordinator.tls import OPTIONS
from pycomms.ft.core.launch import HostReport, JobState, Rule
from pycomms.ft.core.messages import Died, Evict, Refused, Teach
from pycomms.ft.run import aftermath, policy
from pycomms.ft.run.agent import EXIT_FAILED, Agent
from pycomms.ft.run.coordinator import Coordinator
from pycomms.ft.run.devices import workers_of
from pycomms.ft.run.environment import Host
from pycomms.ft.run.launching import LocalLaunch
from pycomms.ft.run.logs import Logs
from pycomms.ft.run.options import Kind, Options
from pycomms.ft.run.ownership import Ownership, address_towards
from pycomms.ft.run.relay import Relay
from pycomms.ft.run.scratch import Scratch
from pycomms.ft.run.spawning import STDOUT, free_port
from pycomms.ft.run.upstream import Upstream
from pycomms.ft.run.words import Voice
from pycomms.ft.run.workers import Workers
from pycomms.ft.run.writer import Writer
from pycomms.ft.wire import Envelope, encode

_WRITE_WITHIN = timedelta(seconds=10)
_LEAVE_WITHIN = 1.0
EXIT_USAGE = 2
"""As argparse has it."""


async def run(options: Options, environment: Mapping[str, str]) -> int:
    """Returns the exit code. In the process's main thread."""
    writer = Writer()
    voice = Voice(writer)
    for text in options.warnings:
        voice.say(f"warning: {text}")
    scratch = None
    code = EXIT_FAILED
    try:
        if lacking := _lacking(options):
            voice.say(lacking)
            return EXIT_USAGE
        scratch = Scratch()
        code = await _Run(options, environment, scratch, writer, voice).run()
    except (OSError, ValueError) as error:
        voice.say(str(error))
    finally:
        if not writer.end(_WRITE_WITHIN):
            with suppress(OSError):
                print("pycomms run: output is lost: nobody reads it", file=sys.stderr)
        if scratch is not None:
            scratch.remove()
    return code


def _lacking(options: Options) -> str:
    """What cannot go well on any attempt, before anything is started; empty: nothing that can be seen."""
    program, token = options.program, options.token_file
    if program.kind is Kind.SCRIPT and not Path(program.name).exists():
        return f"the script is {program.name!r}, expected a file; there is none, seen from {Path.cwd()}"
    if token is not None and not os.access(token, os.R_OK):
        return f"--token-file is {str(token)!r}, expected a file that can be read"
    return ""


class _Run:
    """alone: the job has this host only, and its coordinator: then the agent itself keeps the job's state."""

    def __init__(
        self, options: Options, environment: Mapping[str, str], scratch: Scratch, writer: Writer, voice: Voice
    ) -> None:
        self._options, self._environment, self._scratch = options, environment, scratch
        self._writer, self._voice = writer, voice
        self._host = f"{socket.gethostname()}-{secrets.token_hex(2)}"
        self._slots = workers_of(options.per_node)
        self._name = options.run_id or secrets.token_hex(4)
        self._token = options.token_file or scratch.token()
        meeting = options.meeting
        self._alone = options.most_nodes == 1 and not meeting.external
        self._addresses = [(host, port or free_port()) for host, port in meeting.addresses]
        self._logs = Logs(options.output, scratch.folder, self._name)
        self._coordinator: Coordinator | None = None
        self._agent = self._make_agent()
        self._relay = Relay(
            f"@pycomms-{secrets.token_hex(8)}",
            knows=lambda nonce: self._workers.of(nonce) is not None,
            heard=self._agent.heard,
            complain=voice.say,
        )
        self._workers = Workers(
            options,
            self._host_of_workers(),
            environment,
            self._logs,
            writer,
            voice,
            last_words=self._relay.last_words,
            ended=self._agent.ended,
        )
        self._upstream = Upstream(
            self._host,
            [_target(*address) for address in self._addresses],
            read_token(self._token),
            options.timeouts,
            options.tls,
            up=self._connected,
            heard=self._heard,
            missing=self._missing,
            complain=voice.say,
        )

    async def run(self) -> int:
        options, agent = self._options, self._agent
        async with AsyncExitStack() as stack:
            await self._relay.start()
            stack.push_async_callback(self._relay.stop)
            stack.push_async_callback(self._workers.close)
            ownership = Ownership(options.meeting, self._addresses)
            stack.callback(ownership.release)
            if ownership.held is not None:
                self._coordinator = self._make_coordinator(ownership.held)
                self._coordinator.start()
                stack.push_async_callback(self._coordinator.stop)
            connecting = asyncio.ensure_future(self._upstream.run())
            connecting.add_done_callback(self._connecting_ended)
            stack.push_async_callback(self._disconnect, connecting)
            for number in options.signals:
                asyncio.get_running_loop().add_signal_handler(number, partial(agent.interrupt, number))
            asyncio.get_running_loop().add_signal_handler(signal.SIGCHLD, agent.look_for_stopped)
            code = await agent.run(self._workers)
        self._tell_end(code)
        return code

    # How the parts are joined.

    def _make_agent(self) -> Agent:
        options = self._options
        rule = Rule(
            name=options.run_id,
            fewest=options.fewest_nodes,
            most=options.most_nodes,
            max_restarts=options.max_restarts,
            join=options.meeting.join,
            last_call=options.meeting.last_call,
        )
        report = HostReport(
            host=self._host,
            slots=self._slots,
            rule=rule,
            node_rank=options.node_rank,
            address=self._address_of_store(),
            port=self._fresh_port(),
        )
        local = LocalLaunch(self._name, lambda job: self._agent.job_is(job))
        return Agent(
            report,
            policy.Limits(max_restarts=options.max_restarts, min_ranks=options.min_ranks),
            tell=local.tell if self._alone else self._tell,
            up=self._up,
            renew=self._renew,
            fresh_port=self._fresh_port,
            voice=self._voice,
            shutdown=options.shutdown,
            stopped=options.timeouts.stopped,
        )

    def _make_coordinator(self, number: int) -> Coordinator:
        """number: of its address; all but the first stand by."""
        options = self._options
        ranks = options.most_nodes * self._slots
        arguments = [
            f"--listen={_target(*self._addresses[number])}",
            f"--token-file={self._token}",
            f"--min-ranks={options.min_ranks or 1}",
            f"--expected={ranks}",
            f"--max-ranks={ranks}",
            f"--recovery-deadline={options.timeouts.recovery_deadline.total_seconds()}",
        ]
        if number > 0:
            arguments.append("--standby")
        tls = options.tls
        if tls is not None:
            if tls.cert is None:
                raise ValueError(f"{OPTIONS.cert} and {OPTIONS.key} are missing: the coordinator runs on this host")
            given = zip(OPTIONS, (tls.ca, tls.cert, tls.key), strict=True)
            arguments += [f"{name}={file}" for name, file in given if file is not None]
        if options.http_port is not None:
            arguments.append(f"--http={options.http_port}")
        log = self._logs.folder / "coordinator.log"
        return Coordinator(
            arguments, self._scratch.folder / "coordinator", self._environment, log, self._writer, self._voice
        )

    def _host_of_workers(self) -> Host:
        options = self._options
        return Host(
            name=self._host,
            slots=self._slots,
            role=options.role,
            max_restarts=options.max_restarts,
            agent=self._relay.address,
            coordinator=_target(*self._addresses[0]),
            token_file=str(self._token.absolute()),
            recovery_deadline=options.timeouts.recovery_deadline.total_seconds(),
            virtual_local_rank=options.virtual_local_rank,
        )

    def _address_of_store(self) -> str:
        """Where the workers of all hosts find the store of the first one, should this host have it."""
        options = self._options
        if options.local_addr or self._alone:
            return options.local_addr or options.master_addr or "127.0.0.1"
        if options.node_rank == 0 and options.master_addr:
            return options.master_addr
        return address_towards(*self._addresses[0])

    def _fresh_port(self) -> int:
        return self._options.master_port or free_port()

    # What is said.

    def _tell(self, report: HostReport) -> None:
        self._upstream.send(encode(report))

    def _up(self, event: Died | bytes) -> None:
        self._upstream.send(event if isinstance(event, bytes) else encode(event))

    def _connected(self) -> None:
        if not self._alone:
            self._tell(self._agent.report)
        self._agent.tell_ends_again()
        self._relay.announce_again("the agent has a new connection to the coordinator")

    def _heard(self, data: bytes, envelope: Envelope) -> None:
        message = envelope.message
        if isinstance(message, JobState) and not self._alone:
            self._agent.job_is(message)
        elif isinstance(message, Teach):
            self._relay.announce_again("a coordinator does not know the epoch", with_seats=True)
        elif isinstance(message, (Evict, Refused)):
            self._agent.told(message)
        if envelope.to:
            self._relay.down(data, envelope.to)

    def _missing(self, seconds: float) -> None:
        """There is no coordinator. That harms only a host that waits for others: at the beginning, or at the end."""
        options = self._options
        if self._alone:
            return
        if self._agent.is_waiting_to_start and seconds > options.meeting.join.total_seconds():
            self._agent.fail(f"no coordinator has answered at {self._upstream.targets} for {seconds:.0f} s")
        elif self._agent.is_done and seconds > options.timeouts.rejoin.total_seconds():
            self._agent.leave_alone(f"no coordinator has answered for {seconds:.0f} s, and the workers here are done")

    def _renew(self, round: int) -> None:
        if self._alone and self._coordinator is not None:
            self._coordinator.begin_round(round)

    def _connecting_ended(self, connecting: asyncio.Future[None]) -> None:
        if not connecting.cancelled() and (error := connecting.exception()) is not None:
            self._agent.fail(str(error))

    async def _disconnect(self, connecting: asyncio.Future[None]) -> None:
        self._upstream.leave()
        if self._upstream.connected:
            await asyncio.wait([connecting], timeout=_LEAVE_WITHIN)
        connecting.cancel()
        await asyncio.wait([connecting], timeout=_LEAVE_WITHIN)

    def _tell_end(self, code: int) -> None:
        agent = self._agent
        folder = self._logs.folder if self._options.output.folder is not None else None
        if code == EXIT_FAILED:
            self._voice.say(aftermath.failure(agent.reason, agent.history, folder))
            records = base_folder(self._environment.get("PYCOMMS_FR_DIR", "")) / job_name(
                self._environment.get("PYCOMMS_FR_JOB", ""), agent.job.name
            )
            told = aftermath.verdict(aftermath.records_of(records, agent.workers.pids), records)
            if told:
                self._voice.say(told)
        if self._options.json:
            text = aftermath.summary(code, agent.reason, agent.job.name, agent.job.round + 1, agent.history, folder)
            self._writer.put(STDOUT, f"{text}\n".encode())


def _target(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
