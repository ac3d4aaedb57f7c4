"""The command ``pycomms coordinator``."""

from __future__ import annotations

import argparse
import asyncio
import logging
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pycomms._command_line import USAGE, Parser
from pycomms.ft.core.timeouts import derive_from

if TYPE_CHECKING:
    from pycomms.ft.coordinator.server import Settings

CANNOT_LISTEN = 5
CANNOT_KEEP_STATE = 6
SUPERSEDED = 7

_EPILOG = """exit codes:
  0  SIGTERM or SIGINT has ended it
  1  it has failed in itself: the traceback says where
  4  the command line, the token's file or a certificate makes no sense
  5  it cannot listen: a port is taken, or an address is not of this host
  6  the state folder cannot be written, or another coordinator uses it
  7  a later coordinator has served the hosts meanwhile: start it again, and it comes after that one
"""


def main(argv: list[str]) -> int:
    """Runs ``pycomms coordinator …`` until it is told to end, and returns its exit code."""
    try:
        arguments = _parser().parse_args(argv)
    except SystemExit as end:
        return int(end.code or 0)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s", stream=sys.stderr)
    from pycomms.ft.coordinator.epoch_log import LogInUseError
    from pycomms.ft.coordinator.server import ListenError

    try:
        settings = _settings(arguments)
    except (ValueError, OSError) as error:
        return _complain(error, USAGE)
    try:
        return asyncio.run(_serve(settings, as_json=arguments.json))
    except ListenError as error:
        return _complain(error, CANNOT_LISTEN)
    except (LogInUseError, OSError) as error:
        return _complain(error, CANNOT_KEEP_STATE)


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="pycomms coordinator",
        description="says who is in a job whose members may die and come",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--listen", default="127.0.0.1:29400", metavar="HOST:PORT", help="for agents and workers; port 0: any")
    add("--http", type=int, metavar="PORT", help="status page, /metrics, /healthz, /status.json; 0: any port")
    add("--http-host", default="127.0.0.1", metavar="HOST", help="address of that page (default: %(default)s)")
    add("--token-file", type=Path, required=True, metavar="FILE", help="the job's token; made where it is missing")
    add("--state-dir", type=Path, metavar="DIR", help="folder of this job's epoch log")
    add("--min-ranks", type=int, default=1, metavar="N", help="fewer members do not train (default: %(default)s)")
    add("--max-ranks", type=int, default=1 << 16, metavar="M", help="there are no more slots than that")
    add("--expected", type=int, metavar="N", help="the first membership forms at once with so many (default: M)")
    add("--recovery-deadline", type=float, default=10.0, metavar="S", help="all timeouts follow from it (10 s)")
    add("--tls-cert", default="", metavar="FILE", help="certificate of this coordinator, PEM")
    add("--tls-key", default="", metavar="FILE", help="its key")
    add("--tls-ca", default="", metavar="FILE", help="hosts have to show a certificate that this one has signed")
    add("--standby", action="store_true", help="take over a job that another coordinator has begun, and begin none")
    add("--json", action="store_true", help="print where it listens as JSON")
    return parser


def _settings(arguments: argparse.Namespace) -> Settings:
    from pycomms.ft.coordinator.auth import make_token, read_token
    from pycomms.ft.coordinator.server import Settings
    from pycomms.ft.coordinator.tls import OPTIONS, tls_of
    from pycomms.ft.core.rule import Rule

    host, separator, port = arguments.listen.rpartition(":")
    if not (host and separator and port.isdecimal() and int(port) < 1 << 16):
        raise ValueError(f"--listen is {arguments.listen!r}, expected HOST:PORT")
    if arguments.http is not None and not 0 <= arguments.http < 1 << 16:
        raise ValueError(f"--http is {arguments.http}, expected a port, 0 to 65535")
    most = arguments.max_ranks
    rule = Rule(
        min_ranks=arguments.min_ranks,
        max_ranks=most,
        expected=most if arguments.expected is None else arguments.expected,
        timeouts=derive_from(arguments.recovery_deadline),
    )
    if arguments.tls_ca and not (arguments.tls_cert or arguments.tls_key):
        raise ValueError("--tls-ca is given without --tls-cert and --tls-key")
    tls = tls_of(arguments.tls_ca, arguments.tls_cert, arguments.tls_key, OPTIONS)
    try:
        token = make_token(arguments.token_file)
    except FileExistsError:
        token = read_token(arguments.token_file)
    http = None if arguments.http is None else (arguments.http_host, arguments.http)
    return Settings(
        listen=arguments.listen,
        token=token,
        rule=rule,
        http=http,
        state=arguments.state_dir,
        tls=tls,
        stands_by=arguments.standby,
    )


async def _serve(settings: Settings, *, as_json: bool) -> int:
    from pycomms.ft.coordinator.server import Coordinator

    loop = asyncio.get_running_loop()
    told_to_end = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, told_to_end.set)
    async with Coordinator(settings) as coordinator:
        if as_json:
            import json

            print(json.dumps({"listening": coordinator.address, "http": coordinator.http or None}), flush=True)
        else:
            page = f", status page at {coordinator.http}" if coordinator.http else ""
            print(f"coordinator listening at {coordinator.address}{page}", flush=True)
        ends = [asyncio.ensure_future(event.wait()) for event in (told_to_end, coordinator.superseded)]
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        for end in ends:
            end.cancel()
        return SUPERSEDED if coordinator.superseded.is_set() and not told_to_end.is_set() else 0


def _complain(error: Exception, code: int) -> int:
    print(f"pycomms coordinator: {error}", file=sys.stderr)
    return code
