"""`python -m launch.netns run`: the ranks' environment, their output, and the exit status."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from launch._netns.names import clusters

ROOT = Path(__file__).parents[2]
PATIENCE_S = 60.0
VARIABLES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "MASTER_ADDR", "MASTER_PORT")
SHOW = f"import os, json; print(json.dumps([os.environ[name] for name in {VARIABLES}]))"


def netns(*arguments: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "launch.netns", *arguments]
    return subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_S, check=False)


def test_every_rank_is_told_its_place() -> None:
    done = netns("run", "--hosts", "2", "--per-host", "2", "--json", "--", sys.executable, "-S", "-c", SHOW)
    *lines, outcome = map(json.loads, done.stdout.splitlines())
    assert outcome == {"exit_code": 0, "first": None, "exit_codes": [0, 0, 0, 0]}
    told = {line["rank"]: (line["host"], *json.loads(line["text"])) for line in lines}
    master = ("10.77.0.1", "29500")
    assert told == {
        0: ("host0", "0", "4", "0", "2", "0", *master),
        1: ("host0", "1", "4", "1", "2", "0", *master),
        2: ("host1", "2", "4", "0", "2", "1", *master),
        3: ("host1", "3", "4", "1", "2", "1", *master),
    }


def test_output_is_marked_and_kept_apart() -> None:
    done = netns("run", "--hosts", "2", "--", "sh", "-c", "echo out; echo err >&2; printf unfinished")
    assert done.returncode == 0
    assert sorted(done.stdout.splitlines()) == [
        f"[host{i}:{i}] {text}" for i in (0, 1) for text in ("out", "unfinished")
    ]
    assert sorted(done.stderr.splitlines()) == ["[host0:0] err", "[host1:1] err"]


@pytest.mark.parametrize(
    "script, status",
    [
        ("exit 0", 0),
        ("exit 7", 7),
        ("[ $RANK = 1 ] && exit 5; sleep 1000", 5),  # the others are ended
        ("[ $RANK = 1 ] && kill -KILL $$; sleep 1000", 128 + signal.SIGKILL),
        ("[ $RANK = 1 ] && exit 5; trap '' TERM; while :; do sleep 1000; done", 5),
        ("no-such-program", 127),
    ],
)
def test_exit_status(script: str, status: int) -> None:
    assert netns("run", "--grace", "500ms", "--hosts", "2", "--", "sh", "-c", script).returncode == status


def test_timeout() -> None:
    done = netns("run", "--timeout", "300ms", "--hosts", "2", "--", "sleep", "1000")
    assert done.returncode == 124
    assert "time is over" in done.stderr


@pytest.mark.parametrize(
    "arguments, said",
    [
        (["--latency", "fast"], "such as 50ms"),
        (["--loss", "2%%"], "such as 1%"),
        (["--rate", "1"], "such as 100mbit"),
        (["--per-host", "0"], "at least 1"),
    ],
)
def test_wrong_options(arguments: list[str], said: str) -> None:
    done = netns("run", *arguments, "--", "true")
    assert done.returncode == 2
    assert said in done.stderr


@pytest.mark.parametrize("number, status", [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_the_job(number: signal.Signals, status: int) -> None:
    argv = [sys.executable, "-m", "launch.netns", "run", "--hosts", "2", "--", "sh", "-c", "echo up; exec sleep 1000"]
    with subprocess.Popen(argv, cwd=ROOT, stdout=subprocess.PIPE, text=True) as program:
        try:
            assert program.stdout is not None
            begun = time.monotonic()
            assert "up" in program.stdout.readline()
            os.kill(program.pid, number)
            assert program.wait(PATIENCE_S) == status
            assert time.monotonic() - begun < PATIENCE_S
        finally:
            program.kill()
    assert [name for name in clusters() if name.pid == program.pid] == []
