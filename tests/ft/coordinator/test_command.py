"""``pycomms coordinator``: it says where it listens, ends when it is told to, and what is wrong with its arguments."""

from __future__ import annotations

import signal
import socket
from pathlib import Path

import pytest

from pycomms.ft.coordinator.auth import read_token

from ._jobs import DEADLINE_S, Host, run
from ._process import command, first_line, serving


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_serves_until_it_is_told_to_end(number: int, tmp_path: Path) -> None:
    token = tmp_path / "token"
    with serving(token, "--http", "0", "--state-dir", str(tmp_path / "state")) as (process, told):

        async def attach() -> None:
            async with Host(told["listening"], token=read_token(token)) as host:
                process.send_signal(number)
                assert await host.ended() == ("UNAVAILABLE", "the coordinator ends")

        run(attach())
        output, errors = process.communicate(timeout=DEADLINE_S)
        assert (process.returncode, output) == (0, "")
        assert "Traceback" not in errors
        assert told["http"].startswith("http://127.0.0.1:")


def test_it_says_where_it_listens_in_words(tmp_path: Path) -> None:
    with command("--listen", "127.0.0.1:0", "--token-file", str(tmp_path / "token")) as process:
        assert first_line(process).startswith("coordinator listening at 127.0.0.1:")


def outcome(*arguments: str) -> tuple[int, str]:
    with command(*arguments) as process:
        _, errors = process.communicate(timeout=DEADLINE_S)
        return process.returncode, errors


@pytest.mark.parametrize(
    "arguments, said",
    [
        (["--listen", "nowhere"], "--listen is 'nowhere', expected HOST:PORT"),
        (["--listen", "h:99999"], "--listen is 'h:99999', expected HOST:PORT"),
        (["--http", "99999"], "--http is 99999, expected a port"),
        (["--min-ranks", "5", "--max-ranks", "4"], "min_ranks is 5"),
        (["--recovery-deadline", "0.01"], "recovery_deadline is 0.01 s"),
        (["--recovery-deadline", "inf"], "recovery_deadline is inf s, expected at most"),
        (["--tls-ca", "/nowhere"], "--tls-ca is given without --tls-cert"),
        (["--tls-cert", "/nowhere"], "expected both or none"),
        (["--tls-cert", "/nowhere", "--tls-key", "/nowhere"], "No such file"),
        (["--nonsense"], "unrecognized arguments: --nonsense"),
    ],
)
def test_what_makes_no_sense_is_said(arguments: list[str], said: str, tmp_path: Path) -> None:
    code, errors = outcome("--token-file", str(tmp_path / "token"), *arguments)
    assert code == 4
    assert said in errors
    assert "Traceback" not in errors


def test_a_token_that_others_can_read_is_refused(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("ab" * 32)
    (tmp_path / "token").chmod(0o644)
    code, errors = outcome("--token-file", str(tmp_path / "token"))
    assert code == 4
    assert "has mode 0644, expected 0600" in errors


def test_taken_ports(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        token = ("--token-file", str(tmp_path / "token"))
        code, errors = outcome(*token, "--listen", f"127.0.0.1:{port}")
        assert (code, f"cannot listen at 127.0.0.1:{port}" in errors) == (5, True)
        code, errors = outcome(*token, "--listen", "127.0.0.1:0", "--http", str(port))
        assert (code, f"cannot serve the status page at 127.0.0.1:{port}" in errors) == (5, True)


def test_state_that_cannot_be_kept(tmp_path: Path) -> None:
    token = tmp_path / "token"
    (tmp_path / "file").write_text("")
    code, errors = outcome("--token-file", str(token), "--listen", "127.0.0.1:0", "--state-dir", str(tmp_path / "file"))
    assert (code, "file" in errors) == (6, True)
    state = str(tmp_path / "state")
    with serving(token, "--state-dir", state):
        code, errors = outcome("--token-file", str(token), "--listen", "127.0.0.1:0", "--state-dir", state)
        assert (code, "another coordinator uses" in errors) == (6, True)
