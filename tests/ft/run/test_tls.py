"""Agents and their coordinator over TLS: as on several hosts, with everything that belongs to it."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from pycomms.ft.coordinator.auth import make_token
from pycomms.ft.coordinator.tls import OPTIONS, Tls
from pycomms.ft.run.spawning import free_port
from tests.ft.coordinator._certificates import needs_openssl, of_coordinator_and_host

from ._running import Running

SCRIPT = "import os; print('rank', os.environ['RANK'], flush=True)"


def files(tls: Tls) -> list[str]:
    given = zip(OPTIONS, (tls.ca, tls.cert, tls.key), strict=True)
    return [f"{name}={file}" for name, file in given if file is not None]


def start(stack: ExitStack, folder: Path, port: int, name: str, *options: str) -> Running:
    meeting = ("--nnodes=2", "--rdzv-backend=c10d", f"--rdzv-endpoint=127.0.0.1:{port}", f"--token-file={folder}/token")
    place = folder / name
    place.mkdir()
    return stack.enter_context(Running(place, SCRIPT, *meeting, *options))


@needs_openssl
def test_hosts_meet_over_tls(tmp_path: Path) -> None:
    make_token(tmp_path / "token")
    mine, theirs = of_coordinator_and_host(tmp_path)
    port = free_port()
    with ExitStack() as stack:
        jobs = [
            start(stack, tmp_path, port, "owner", "--rdzv-conf=is_host=1", *files(mine)),
            start(stack, tmp_path, port, "other", "--rdzv-conf=is_host=0", *files(theirs)),
        ]
        assert [job.end() for job in jobs] == [0, 0]
        assert sorted(line for job in jobs for line in job.out) == ["[0]:rank 0", "[1]:rank 1"]


@needs_openssl
def test_a_host_that_lacks_something_says_what(tmp_path: Path) -> None:
    make_token(tmp_path / "token")
    mine, theirs = of_coordinator_and_host(tmp_path)
    port = free_port()
    with ExitStack() as stack:
        start(stack, tmp_path, port, "owner", "--rdzv-conf=is_host=1", *files(mine))
        without = start(stack, tmp_path, port, "without", "--rdzv-conf=is_host=0")
        half = start(stack, tmp_path, port, "half", "--rdzv-conf=is_host=0", *files(Tls(ca=theirs.ca)))
        assert (without.end(), half.end()) == (1, 1)
        without.line(r"speaks TLS, and no authority to believe it was given \(--tls-ca, --tls-cert, --tls-key\)")
        half.line("speaks TLS, and wants a certificate that its authority has signed")
