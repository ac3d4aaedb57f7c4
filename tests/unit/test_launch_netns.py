"""What launch.netns decides without asking the kernel. No privileges are needed."""

from __future__ import annotations

import os
from datetime import timedelta
from typing import Any

import pytest

from launch._netns.command import main
from launch._netns.job import Job, environment
from launch._netns.names import ClusterName, start_time
from launch._netns.plan import Addresses, host_orders, hosts_file, switch_orders
from launch._netns.shaping import Direction, Wire, across, cut_orders, rate_orders
from launch._netns.units import duration, rate, share

HOSTS = [Addresses(index) for index in range(3)]


@pytest.mark.parametrize(
    "text, meant",
    [("50ms", timedelta(milliseconds=50)), ("1.5s", timedelta(seconds=1.5)), ("200US", timedelta(0, 0, 200))],
)
def test_durations(text: str, meant: timedelta) -> None:
    assert duration(text) == meant


def test_rates_and_shares() -> None:
    assert [rate(text) for text in ("9600bit", "100mbit", "1.5Gbit")] == [9_600, 100_000_000, 1_500_000_000]
    assert [share(text) for text in ("1%", "0.01", "0")] == [0.01, 0.01, 0.0]


@pytest.mark.parametrize("text", ["", "50", "ms", "-5ms", "5 parsecs", "1e3s", "50ms 20ms"])
def test_no_durations(text: str) -> None:
    with pytest.raises(ValueError, match="such as 50ms"):
        duration(text)


@pytest.mark.parametrize(
    "option, said",
    [
        ("--hosts=0", "hosts must be from 1 to 200, not 0"),
        ("--mtu=1", "mtu must be from 1280"),
        ("--rate=1bit", "rate must be at least 8000 bit/s"),
        ("--latency=61s", "latency must be from 0 to 60 s"),
        ("--loss=200%", "loss must be a share from 0 to 1"),
    ],
)
def test_a_cluster_that_cannot_be_is_refused_in_a_line(option: str, said: str) -> None:
    with pytest.raises(SystemExit, match=f"^launch.netns run: {said}"):
        main(["run", option, "--", "true"])


@pytest.mark.parametrize("option", [f"--timeout={'9' * 20}s", f"--rate={'9' * 400}gbit"])
def test_what_no_number_holds_is_a_usage_error(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["run", option, "--", "true"])
    assert "is too large" in capsys.readouterr().err


def test_addresses_differ_at_every_index() -> None:
    for kind in ("ipv4", "ipv6", "hardware", "name", "port"):
        assert len({getattr(Addresses(index), kind) for index in range(200)}) == 200


def test_a_cluster_has_no_way_out() -> None:
    orders = [
        *switch_orders(HOSTS, {host.name: f"x-{host.name}" for host in HOSTS}, 1500),
        *host_orders(HOSTS[0], HOSTS),
    ]
    assert not [order for order in orders if "route" in order or "default" in order]
    assert sum("neigh add" in order for order in orders) == 4  # two addresses of two others
    assert "10.77.0.3 host2" in hosts_file(HOSTS)


def test_across_cuts_between_sides_and_not_within() -> None:
    assert across([[0, 1], [2]], 3) == {Direction(0, 2), Direction(2, 0), Direction(1, 2), Direction(2, 1)}
    assert across([[0]], 3) == {Direction(0, 1), Direction(1, 0), Direction(0, 2), Direction(2, 0)}
    assert across([], 3) == across([[0, 1, 2]], 3) == set()


@pytest.mark.parametrize("sides", [[[0], [0]], [[3]], [[-1]]])
def test_sides_that_make_no_sense(sides: list[list[int]]) -> None:
    with pytest.raises(ValueError, match="sides must name hosts 0 to 2, each once"):
        across(sides, 3)


def test_a_cut_stands_where_frames_leave_for_the_listener() -> None:
    (cut,) = cut_orders(HOSTS, [Direction(0, 2)], [])
    (joined,) = cut_orders(HOSTS, [], [Direction(0, 2)])
    assert cut.startswith("filter add dev h2 egress pref 1 ")
    assert f"match ether src {HOSTS[0].hardware} " in cut
    assert joined == "filter del dev h2 egress pref 1 protocol all u32"


def test_a_rate_is_for_both_ways_and_goes_away() -> None:
    sent, got = rate_orders(HOSTS[1], 10**9, None)
    assert sent[0].startswith("qdisc replace dev eth0 root tbf rate 1000000000bit ")
    assert got[0].startswith("qdisc replace dev h1 root tbf ")
    assert rate_orders(HOSTS[1], None, 10**9) == (["qdisc del dev eth0 root"], ["qdisc del dev h1 root"])
    assert rate_orders(HOSTS[1], None, None) == ([], [])


@pytest.mark.parametrize("wrong", [{"loss": -0.1}, {"loss": 1.1}, {"latency": timedelta(hours=1)}])
def test_wires_that_make_no_sense(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=f"{next(iter(wrong))} must be"):
        Wire(**wrong)


def test_variables_are_those_of_torchrun() -> None:
    told = environment(Job(argv=["x"], per_host=4, master_port=5), cluster_size=2, host=1, local_rank=3, master="m")
    assert (told["RANK"], told["WORLD_SIZE"], told["LOCAL_RANK"], told["LOCAL_WORLD_SIZE"]) == ("7", "8", "3", "4")
    assert (told["GROUP_RANK"], told["GROUP_WORLD_SIZE"], told["MASTER_ADDR"], told["MASTER_PORT"]) == (
        "1",
        "2",
        "m",
        "5",
    )


def test_a_name_tells_its_owner() -> None:
    name = ClusterName.new()
    assert name.owned()
    assert name.leftovers() == []
    assert str(os.getpid()) in name.namespace("switch")
    assert start_time(2**22 + 1) == -1  # more than any process id
    assert ClusterName.new() != name
