"""What can be put between the hosts, and that it goes away again."""

from __future__ import annotations

from datetime import timedelta

import pytest

from launch.netns import Cluster, Wire

from ._talkers import PATIENCE_S, Asker, delivered, megabits, start

LATENCY = Wire(latency=timedelta(milliseconds=50))
SILENCE_S = 0.3  # how long an answer is waited for that must not come


def test_latency_each_way_and_live_connections_stay() -> None:
    with Cluster(hosts=2) as cluster:
        start(cluster.hosts[1], "echo")
        stream = Asker(cluster.hosts[0], cluster.hosts[1].ipv4, "tcp")
        datagrams = Asker(cluster.hosts[0], cluster.hosts[1].ipv6)
        assert stream.fastest(5) < 0.05
        cluster.set_wire(LATENCY)
        for asker in (stream, datagrams):
            assert 0.1 <= asker.fastest(4) < 0.15
        cluster.set_wire(Wire(), speaker=1)
        assert 0.05 <= datagrams.fastest(4) < 0.1
        assert cluster.counts().carried > 0
        cluster.set_wire(Wire())
        assert cluster.counts().carried == 0  # no relay in the way
        for asker in (stream, datagrams):
            assert asker.fastest(5) < 0.05


def test_latency_of_one_pair_only() -> None:
    with Cluster(hosts=3) as cluster:
        start(cluster.hosts[0], "echo")
        cluster.set_wire(LATENCY, speaker=0, listener=1)
        assert Asker(cluster.hosts[1], cluster.hosts[0].ipv4).fastest(3) >= 0.05
        assert Asker(cluster.hosts[2], cluster.hosts[0].ipv4).fastest(5) < 0.05


def test_loss_is_seeded() -> None:
    def lost(seed: int) -> set[int]:
        with Cluster(hosts=2, seed=seed, wire=Wire(loss=0.1)) as cluster:
            return set(range(2000)) - set(delivered(cluster, 0, 1, 2000))

    first = lost(seed=7)
    assert 140 <= len(first) <= 260  # four and a half standard deviations
    assert lost(seed=7) == first
    assert lost(seed=8) != first


def test_loss_in_one_direction() -> None:
    with Cluster(hosts=2) as cluster:
        cluster.set_wire(Wire(loss=0.5), speaker=0)
        assert len(delivered(cluster, 0, 1, 400)) < 300
        assert delivered(cluster, 1, 0, 400) == list(range(400))


def test_tcp_gets_through_loss_and_latency() -> None:
    with Cluster(hosts=2, wire=Wire(latency=timedelta(milliseconds=2), loss=0.01)) as cluster:
        assert megabits(cluster, 0, 1, 2_000_000) > 0
        assert cluster.counts().lost > 0


@pytest.mark.parametrize("wire", [Wire(), Wire(latency=timedelta(milliseconds=1))], ids=["plain", "through the relay"])
def test_rate(wire: Wire) -> None:
    with Cluster(hosts=2, rate=80_000_000, wire=wire) as cluster:
        assert 40 < megabits(cluster, 0, 1, 5_000_000) < 85
        cluster.set_rate(None, host=0)  # what host 1 gets is still limited
        assert megabits(cluster, 0, 1, 5_000_000) < 85
        cluster.set_rate(None)
        assert megabits(cluster, 0, 1, 20_000_000) > 160


def test_the_relay_is_fast_enough() -> None:
    with Cluster(hosts=2, wire=Wire(latency=timedelta(microseconds=100))) as cluster:
        assert megabits(cluster, 0, 1, 200_000_000) > 400  # on a busy machine; idle it is ten times that


@pytest.mark.parametrize("wire", [Wire(), Wire(latency=timedelta(milliseconds=1))], ids=["plain", "through the relay"])
def test_one_way_cut(wire: Wire) -> None:
    with Cluster(hosts=3, wire=wire) as cluster:
        start(cluster.hosts[2], "echo")
        cluster.cut(speaker=0, listener=1)
        assert delivered(cluster, 1, 0, 100) == list(range(100))  # host 0 hears host 1
        start(cluster.hosts[1], "echo")
        start(cluster.hosts[0], "echo")
        assert (
            Asker(cluster.hosts[0], cluster.hosts[1].ipv4).ask(SILENCE_S) is None
        )  # host 1 does not hear the question
        assert Asker(cluster.hosts[1], cluster.hosts[0].ipv6).ask(SILENCE_S) is None  # nor the answer
        for index in (0, 1):
            assert Asker(cluster.hosts[index], cluster.hosts[2].ipv4).ask() is not None
        cluster.heal()
        assert Asker(cluster.hosts[0], cluster.hosts[1].ipv4).ask() is not None


@pytest.mark.parametrize("wire", [Wire(), Wire(latency=timedelta(milliseconds=1))], ids=["plain", "through the relay"])
def test_partition_and_heal(wire: Wire) -> None:
    with Cluster(hosts=4, wire=wire) as cluster:
        for host in cluster.hosts:
            start(host, "echo")
        askers = {
            (a.index, b.index): Asker(a, b.ipv4) for a in cluster.hosts for b in cluster.hosts if a.index < b.index
        }

        def connected(expected: set[tuple[int, int]]) -> set[tuple[int, int]]:
            patience = {pair: PATIENCE_S if pair in expected else SILENCE_S for pair in askers}
            for pair, asker in askers.items():
                asker.put(patience[pair])
            return {pair for pair, asker in askers.items() if asker.answer(patience[pair]) is not None}

        def check(expected: set[tuple[int, int]]) -> None:
            assert connected(expected) == expected

        check(set(askers))
        cluster.partition([0, 1], [2, 3])
        check({(0, 1), (2, 3)})
        cluster.partition([0])  # the others are together
        check({(1, 2), (1, 3), (2, 3)})
        cluster.heal()
        check(set(askers))


@pytest.mark.parametrize("wire", [Wire(), Wire(latency=timedelta(milliseconds=1))], ids=["plain", "through the relay"])
def test_link_down_and_up(wire: Wire) -> None:
    with Cluster(hosts=3, wire=wire) as cluster:
        start(cluster.hosts[0], "echo")
        stream = Asker(cluster.hosts[1], cluster.hosts[0].ipv4, "tcp")
        other = Asker(cluster.hosts[2], cluster.hosts[0].ipv4)
        ipv6 = Asker(cluster.hosts[1], cluster.hosts[0].ipv6)
        assert stream.ask() is not None
        cluster.link_down(1)
        assert stream.ask(SILENCE_S) is None
        assert cluster.hosts[1].run(["cat", "/sys/class/net/eth0/carrier"]).stdout.strip() == "0"
        assert other.ask() is not None
        cluster.link_up(1)
        assert stream.ask() is not None  # sent again by TCP: the connection lives on
        assert ipv6.ask() is not None
