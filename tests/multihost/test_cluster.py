"""A cluster comes and goes without a trace, however its owner ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from launch._netns.names import ETC, RUN, clusters, start_time
from launch.netns import Cluster, Unavailable, Wire, reason_unavailable

from ._talkers import Asker, next_line, start

ROOT = Path(__file__).parents[2]
PATIENCE_S = 30.0
OWNER = """
import sys
from datetime import timedelta
from launch.netns import Cluster, Wire
with Cluster(hosts=2, wire=Wire(latency=timedelta(milliseconds=1))) as cluster:
    child = cluster.hosts[0].popen(["sleep", "1000"])
    print(cluster.name.text, child.pid, flush=True)
    {then}
"""


def existing(cluster: str) -> list[str]:
    folders = [folder for folder in (RUN, ETC) if folder.is_dir()]
    return [path.name for folder in folders for path in folder.iterdir() if path.name.startswith(cluster)]


def await_end(pid: int, born: int) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while start_time(pid) == born:
        assert time.monotonic() < deadline, f"process {pid} is still there"
        os.sched_yield()


@contextmanager
def owner(then: str = "sys.stdin.read()") -> Iterator[tuple[subprocess.Popen[str], str, int]]:
    """A program that owns a cluster with a process in it: itself, the cluster's name, the process."""
    argv = [sys.executable, "-c", OWNER.format(then=then)]
    with subprocess.Popen(argv, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as program:
        try:
            name, pid = next_line(program).split()
            yield program, name, int(pid)
        finally:
            program.kill()


def test_twenty_in_a_row_leave_nothing() -> None:
    descriptors = len(list(Path("/proc/self/fd").iterdir()))
    for round_trip in range(20):
        with Cluster(hosts=2) as cluster:
            assert len(existing(cluster.name.text)) == 5  # three namespaces, two folders
            if round_trip % 5 == 0:
                start(cluster.hosts[1], "echo")
                assert Asker(cluster.hosts[0], cluster.hosts[1].ipv4).ask() is not None
        assert existing(cluster.name.text) == []
    assert len(list(Path("/proc/self/fd").iterdir())) == descriptors
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)


def test_daemons_end_with_the_cluster() -> None:
    with Cluster(hosts=1) as cluster:
        text = cluster.hosts[0].run(["sh", "-c", "setsid sleep 1000 >/dev/null 2>&1 & echo $!"]).stdout
        daemon = int(text)
        born = start_time(daemon)
        assert born > 0
    await_end(daemon, born)


def test_a_process_that_has_only_just_begun_ends_too() -> None:
    for _ in range(5):
        with Cluster(hosts=1) as cluster:
            child = cluster.hosts[0].popen(["sleep", "1000"])
        assert child.returncode is not None


def test_an_exception_removes_it() -> None:
    with pytest.raises(ZeroDivisionError), Cluster(hosts=3) as cluster:
        _ = 1 / 0
    assert existing(cluster.name.text) == []


def test_half_made_is_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(hosts=2)

    def refuse(*_: object) -> str:
        raise OSError("no room")

    monkeypatch.setattr("launch._netns.cluster.hosts_file", refuse)
    with pytest.raises(OSError, match="no room"):
        cluster.__enter__()
    assert existing(cluster.name.text) == []


@pytest.mark.parametrize("number, status", [(signal.SIGTERM, 128 + signal.SIGTERM), (signal.SIGINT, -signal.SIGINT)])
def test_a_signal_to_the_owner_removes_it(number: signal.Signals, status: int) -> None:
    with owner() as (program, name, child):
        born = start_time(child)
        program.send_signal(number)
        assert program.wait(PATIENCE_S) == status
        assert existing(name) == []
        await_end(child, born)


def test_clean_after_kill_9_and_only_what_is_dead() -> None:
    with Cluster(hosts=2) as living, owner() as (program, name, child):
        born = start_time(child)
        program.kill()
        program.wait(PATIENCE_S)
        assert len(existing(name)) == 5
        argv = [sys.executable, "-m", "launch.netns", "clean", "--json"]
        done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_S, check=True)
        removed = {report["cluster"]: report for report in map(json.loads, done.stdout.splitlines())}
        assert child in removed[name]["processes"]
        assert living.name.text not in removed
        assert existing(name) == []
        await_end(child, born)
        start(living.hosts[1], "echo")
        assert Asker(living.hosts[0], living.hosts[1].ipv4).ask() is not None


def test_the_owner_of_a_cluster_is_told_from_a_later_process_of_its_id() -> None:
    with Cluster(hosts=1) as cluster:
        (name,) = [name for name in clusters() if name.text == cluster.name.text]
        assert name.owned()
        assert not type(name)(name.text, name.pid, name.started - 1).owned()


def test_hosts_see_each_other_and_nothing_else() -> None:
    with Cluster(hosts=3) as cluster:
        for host in cluster.hosts:
            assert host.run(["ip", "route", "show", "default"]).stdout == ""
            assert host.run(["cat", "/proc/sys/kernel/hostname"]).stdout.strip() == host.name
        start(cluster.hosts[2], "echo")
        for address in (cluster.hosts[2].ipv4, cluster.hosts[2].ipv6, "host2", "host2-ipv6"):
            protocol = "udp" if address in (cluster.hosts[2].ipv4, cluster.hosts[2].ipv6) else "tcp"
            assert Asker(cluster.hosts[0], address, protocol).ask() is not None
        start(cluster.hosts[1], "echo")
        loop = Asker(cluster.hosts[1], "127.0.0.1")
        assert loop.ask() is not None


def test_two_clusters_do_not_meet() -> None:
    with Cluster(hosts=2) as one, Cluster(hosts=2) as other:
        start(one.hosts[1], "echo")
        assert Asker(other.hosts[0], one.hosts[1].ipv4).ask(0.2) is None
        assert Asker(one.hosts[0], one.hosts[1].ipv4).ask() is not None


def test_run_has_a_deadline_and_a_status() -> None:
    with Cluster(hosts=1) as cluster:
        with pytest.raises(subprocess.TimeoutExpired):
            cluster.hosts[0].run(["sleep", "1000"], timeout=timedelta(milliseconds=200))
        with pytest.raises(subprocess.CalledProcessError) as caught:
            cluster.hosts[0].run(["sh", "-c", "exit 3"])
        assert caught.value.returncode == 3
        assert cluster.hosts[0].run(["no-such-program"], check=False).returncode == 127


@pytest.mark.parametrize(
    "wrong, message",
    [
        ({"hosts": 0}, "hosts must be from 1"),
        ({"hosts": 2, "mtu": 100}, "mtu must be from 1280"),
        ({"hosts": 2, "rate": 1}, "rate must be at least"),
    ],
)
def test_wrong_arguments(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Cluster(**wrong)


def test_wrong_arguments_of_controls() -> None:
    with Cluster(hosts=2) as cluster:
        with pytest.raises(ValueError, match="host must be from 0 to 1, not 2"):
            cluster.link_down(2)
        with pytest.raises(ValueError, match="two hosts"):
            cluster.cut(speaker=1, listener=1)
        with pytest.raises(ValueError, match="each once"):
            cluster.partition([0, 1], [1])
        with pytest.raises(ValueError, match="latency must be"):
            cluster.set_wire(Wire(latency=timedelta(seconds=-1)))
        with pytest.raises(ValueError, match="loss must be"):
            cluster.set_wire(Wire(loss=1.5))


def test_says_why_it_cannot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    reason_unavailable.cache_clear()
    try:
        with pytest.raises(Unavailable, match="ip is not installed"), Cluster(hosts=1):
            pass
    finally:
        reason_unavailable.cache_clear()


def test_without_privileges_the_command_says_so() -> None:
    check = [sys.executable, "-m", "launch.netns", "check"]
    argv = ["setpriv", "--bounding-set", "-net_admin,-sys_admin", *check]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 69
    assert "need root" in done.stderr
    assert subprocess.run(check, cwd=ROOT, capture_output=True, timeout=PATIENCE_S, check=False).returncode == 0
