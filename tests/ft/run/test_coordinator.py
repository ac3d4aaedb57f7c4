"""The coordinator that the agent has started: it may die, and comes back; it does not outlive the agent."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import urllib.request
from datetime import timedelta
from pathlib import Path

import pytest

from pycomms.ft.run.coordinator import Coordinator
from pycomms.ft.run.spawning import free_port
from pycomms.ft.run.words import Voice
from pycomms.ft.run.writer import Writer

from ._running import PATIENCE_S, Running, wait_for

FORM = """
    import os, signal, sys
    from tests.ft.run.member import *
    from pycomms.ft.core.messages import Form, Change
    member = Member()
    member.announce()
    form = member.hear(Form)
    print("rank", SLOT, "start", INCARNATION, "epoch", form.epoch.counter, "of", len(form.seats), flush=True)
    member.settle(form.epoch)
"""


def coordinator_of(job: Running) -> int | None:
    for pid in job.processes():
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        if b"coordinator" in words and b"-S" not in words:
            return pid
    return None


def test_members_are_formed_and_the_job_ends(tmp_path: Path) -> None:
    script = FORM + "    member.leave()\n"
    with Running(tmp_path, script, "--nproc-per-node=3", "--no-prefix") as job:
        assert job.end() == 0
        assert sorted(job.out) == [f"rank {rank} start 0 epoch 1 of 3" for rank in range(3)]
        assert not job.processes()


def test_the_dead_member_is_replaced(tmp_path: Path) -> None:
    script = FORM + (
        "    os.kill(os.getpid(), signal.SIGKILL) if SLOT == 1 and INCARNATION == 0 else None\n"
        "    member.hear(Change) if INCARNATION == 0 else None\n"
        "    member.ready(form.epoch) if INCARNATION == 0 else None\n"
        "    again = member.hear(Form) if INCARNATION == 0 else form\n"
        "    while len(again.seats) < 2:\n"
        "        member.settle(again.epoch)\n"
        "        member.hear(Change)\n"
        "        member.ready(again.epoch)\n"
        "        again = member.hear(Form)\n"
        "    print('whole again', SLOT, flush=True)\n"
        "    member.leave()\n"
    )
    with Running(tmp_path, script, "--nproc-per-node=2", "--no-prefix") as job:
        assert job.end() == 0
        job.line(r"rank 1 start 1 epoch \d+ of 2")
        assert sorted(line for line in job.out if "whole" in line) == ["whole again 0", "whole again 1"]


def test_a_coordinator_that_dies_is_started_again_and_no_worker_ends(tmp_path: Path) -> None:
    script = FORM.replace("import Form, Change", "import Form, Change\n    from pycomms.ft.wire import AnnounceAgain")
    script += (
        "    member.hear(AnnounceAgain)\n"
        "    member.announce(form.epoch)\n"
        "    print('announced again', os.getpid(), flush=True)\n"
        "    member.leave()\n"
    )
    with Running(tmp_path, script, "--nproc-per-node=2", "--no-prefix", "--json") as job:
        job.line("rank . start 0", 2)
        pid = coordinator_of(job)
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        job.line(r"the coordinator has ended with signal 9 \(SIGKILL\): started again")
        job.line("announced again", 2)
        assert job.end() == 0
        assert job.summary()["deaths"] == []


def test_a_coordinator_that_finds_no_room_is_started_when_there_is(tmp_path: Path) -> None:
    script = FORM.replace("import Form, Change", "import Form, Change\n    from pycomms.ft.wire import AnnounceAgain")
    script += "    member.hear(AnnounceAgain)\n    member.announce(form.epoch)\n    member.leave()\n"
    with Running(tmp_path, script, "--no-prefix") as job:
        job.line("rank 0 start 0")
        pid = coordinator_of(job)
        assert pid is not None
        words = Path(f"/proc/{pid}/cmdline").read_text().split("\0")
        state = Path(next(word for word in words if word.startswith("--state-dir=")).partition("=")[2]).parent
        away = state.rename(state.with_name("away"))
        state.touch()
        os.kill(pid, signal.SIGKILL)
        job.line("the coordinator cannot be started: .*Not a directory")
        state.unlink()
        away.rename(state)
        assert job.end() == 0


def test_a_new_round_has_a_new_coordinator_without_a_word(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    async def renew(writer: Writer) -> None:
        arguments = ["--listen=127.0.0.1:0", f"--token-file={tmp_path / 'token'}"]
        state, log = tmp_path / "state", tmp_path / "log"
        coordinator = Coordinator(arguments, state, os.environ, log, writer, Voice(writer))
        coordinator.start()
        coordinator.begin_round(1)
        await asyncio.wait_for(coordinator._gone.wait(), PATIENCE_S)
        await asyncio.wait_for(started(coordinator), PATIENCE_S)
        assert (state / "round1").exists()
        await coordinator.stop()

    async def started(coordinator: Coordinator) -> None:
        while coordinator._gone.is_set():
            await asyncio.sleep(0)

    writer = Writer()
    asyncio.run(renew(writer))
    assert writer.end(timedelta(seconds=PATIENCE_S))
    assert "has ended" not in capfd.readouterr().err


def test_one_that_cannot_listen_says_why_on_a_slow_machine_too(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pycomms.ft.run.coordinator._QUICK", 0.0)

    async def begin(writer: Writer, port: int) -> None:
        arguments = ["--listen=127.0.0.1:0", f"--http={port}", f"--token-file={tmp_path / 'token'}"]
        coordinator = Coordinator(arguments, tmp_path / "state", os.environ, tmp_path / "log", writer, Voice(writer))
        coordinator.start()
        await asyncio.wait_for(coordinator._gone.wait(), PATIENCE_S)
        await coordinator.stop()

    writer = Writer()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        for _ in range(2):
            asyncio.run(begin(writer, taken.getsockname()[1]))
    assert writer.end(timedelta(seconds=PATIENCE_S))
    said = capfd.readouterr().err
    assert said.count("the coordinator has ended with exit code 5: started again") == 2
    assert said.count("cannot serve the status page at 127.0.0.1:") == 2  # and not those of earlier tries again


def test_nobody_outlives_an_agent_that_is_killed(tmp_path: Path) -> None:
    with Running(tmp_path, FORM + "    member.hear(Change)\n", "--nproc-per-node=2", "--no-prefix") as job:
        job.line("rank . start 0", 2)
        assert coordinator_of(job) is not None
        job.process.kill()
        job.process.wait()
        assert wait_for(lambda: not job.processes())


def test_status_page(tmp_path: Path) -> None:
    port = free_port()
    with Running(tmp_path, FORM + "    member.hear(Change)\n", f"--coordinator-http={port}", "--no-prefix") as job:
        job.line("rank 0 start 0")
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
            assert b"pycomms" in answer.read()
        job.process.send_signal(signal.SIGTERM)
        assert job.end() == 143


def test_the_token_is_for_this_user_alone(tmp_path: Path) -> None:
    script = "import os; print(oct(os.stat(os.environ['PYCOMMS_JOB_TOKEN_FILE']).st_mode & 0o777))"
    with Running(tmp_path, script, "--no-prefix") as job:
        assert job.end() == 0
        assert job.out == ["0o600"]


@pytest.mark.parametrize("backend", ["c10d", "static"])
def test_two_hosts_meet_at_an_endpoint(tmp_path: Path, backend: str) -> None:
    """Both are this machine; one of them runs the coordinator."""
    token = tmp_path / "token"
    token.touch(0o600)
    token.write_text("ab" * 32)
    script = FORM + "    member.leave()\n"
    options: tuple[str, ...] = ("--nnodes=2", "--no-prefix", f"--token-file={token}", f"--rdzv-backend={backend}")
    options += (f"--rdzv-endpoint=127.0.0.1:{free_port()}",)
    folders = [tmp_path / "a", tmp_path / "b"]
    for folder in folders:
        folder.mkdir()
    with (
        Running(folders[0], script, *options, "--node-rank=0") as one,
        Running(folders[1], script, *options, *(["--node-rank=1"] if backend == "static" else [])) as other,
    ):
        assert (one.end(), other.end()) == (0, 0)
        assert sorted(one.out + other.out) == [f"rank {rank} start 0 epoch 1 of 2" for rank in range(2)]
