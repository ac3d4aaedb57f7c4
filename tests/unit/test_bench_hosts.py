"""Where the benchmark starts ranks that are spread over hosts. No host is made here."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.contestants import CONTESTANTS, Setting
from bench.contestants.mpi import FLAVOURS, Flavour, Mpi
from launch._netns.agent import agent_script
from launch._netns.names import ClusterName
from launch._netns.plan import Addresses
from launch.netns import Host
from pycomms.bench.plan import Case, Op, cases

HOSTS = tuple(Host(Addresses(index), f"space{index}") for index in range(2))


def setting(cache: Path, *, hosts: tuple[Host, ...] = HOSTS) -> Setting:
    return Setting(cache=cache, socket=cache / "hub", world=4, cores="", hosts=hosts, agent=cache / "agent")


def test_ranks_fill_one_host_after_the_other(tmp_path: Path) -> None:
    spread = setting(tmp_path)
    namespaces = [spread.place(rank, ["rank"])[3] for rank in range(4)]
    assert namespaces == ["space0", "space0", "space1", "space1"]
    assert spread.place(3, ["rank"])[-2:] == ["host1", "rank"]
    assert (spread.interface, spread.address, spread.where) == ("eth0", "10.77.0.1", "4 ranks on 2 hosts")


def test_without_hosts_ranks_start_where_the_driver_is(tmp_path: Path) -> None:
    here = setting(tmp_path, hosts=())
    assert here.place(3, ["rank"]) == ["rank"]
    assert (here.interface, here.address, here.where) == ("lo", "127.0.0.1", "4 ranks")


def test_a_torch_backend_is_told_where_rank_0_is(tmp_path: Path) -> None:
    (gloo,) = [contestant for contestant in CONTESTANTS if contestant.name == "gloo"]
    launches = gloo.launches(setting(tmp_path))
    assert all("--address=10.77.0.1" in launch.argv for launch in launches)
    assert len(launches) == 4
    assert {launch.env["GLOO_SOCKET_IFNAME"] for launch in launches} == {"eth0"}


@pytest.mark.parametrize("flavour", FLAVOURS, ids=lambda flavour: str(flavour.name))
def test_an_mpi_is_launched_on_the_first_host_through_the_agent(flavour: Flavour, tmp_path: Path) -> None:
    folder = flavour.environment.folder(tmp_path)
    (folder / "bin").mkdir(parents=True)
    for name in ("ready", "bin/mpiexec"):
        (folder / name).touch()
    (launch,) = Mpi(flavour).launches(setting(tmp_path))
    assert launch.argv[3] == "space0"
    assert str(tmp_path / "agent") in launch.argv
    assert {"host0,host1", "host0:2,host1:2"} & set(launch.argv)
    assert not [text for text in (*launch.argv, *launch.env.values()) if text in ("{hosts}", "{agent}", "{interface}")]


def test_the_agent_enters_the_host_that_it_is_given() -> None:
    name = ClusterName.new()
    assert f"ip netns exec {name.text}-$host " in agent_script(name)


def test_cases_say_on_how_many_hosts_they_are() -> None:
    (case,) = cases((Op.ALL_REDUCE,), (8,), 4, 2)
    assert case == Case(op=Op.ALL_REDUCE, size=8, ranks=4, hosts=2)
    assert case.label == "all_reduce 8 B, 4 ranks on 2 hosts"
