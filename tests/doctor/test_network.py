"""What is made of interfaces, of the address that the engine has chosen, and of this host's name."""

from __future__ import annotations

import ipaddress
import socket

import pytest

from pycomms.doctor import network
from pycomms.doctor.finding import Finding, Level

from ._given import STAGES, by_name, told

NAME = network.Resolved(name="node1", addresses=("192.0.2.2",), seconds=0.01, trouble="")
INTERFACES = (
    network.Interface(name="lo", address=ipaddress.IPv4Address("127.0.0.1")),
    network.Interface(name="eth0", address=ipaddress.IPv4Address("192.0.2.2")),
)
CHOSEN = STAGES["engine"]["address"]


def judge(
    *, address: str = CHOSEN, error: str = "", wanted: str = "", family: str = "", name: network.Resolved = NAME
) -> dict[str, Finding]:
    seen = network.Seen(interfaces=INTERFACES, own_name=name)
    engine = {"address": address, "address_error": error}
    return by_name(network.judge(seen, told(engine=engine), wanted=wanted, family=family))


def test_the_interface_and_why() -> None:
    found = judge()["address"]
    assert (found.level, found.value) == (Level.OK, "192.0.2.2")
    assert "192.0.2.2 (eth0): the first that is up" in found.text
    assert "by PYCOMMS_SOCKET_IFNAME=eth" in judge(wanted="eth")["address"].text


def test_only_loopback() -> None:
    found = judge(address="aa.04000000000000007f000001000000000000000000000000.x")["address"]
    assert (found.level, "cannot reach this one" in found.text) == (Level.NOTE, True)


def test_no_address() -> None:
    assert judge(address="aa.x")["address"].level is Level.NOTE
    found = judge(address="aa.x", wanted="ib0")["address"]
    assert (found.level, "'ib0'" in found.text, "eth0 192.0.2.2" in found.text) == (Level.PROBLEM, True, True)
    assert judge(error="PYCOMMS_SOCKET_FAMILY must be 4 or 6, not 5")["address"].level is Level.PROBLEM


@pytest.mark.parametrize(
    "name, level",
    [
        (NAME, Level.OK),
        (network.Resolved(name="a", addresses=("127.0.1.1", "::1"), seconds=0, trouble=""), Level.NOTE),
        (network.Resolved(name="a", addresses=("fe80::1%2",), seconds=0, trouble=""), Level.OK),
        (network.Resolved(name="a", addresses=("192.0.2.2",), seconds=2, trouble=""), Level.NOTE),
        (network.Resolved(name="a", addresses=(), seconds=3, trouble="no answer within 3 s"), Level.NOTE),
    ],
)
def test_the_name_of_the_host(name: network.Resolved, level: Level) -> None:
    assert judge(name=name)["host name"].level is level


def test_addresses_of_the_engine() -> None:
    assert network.address_in(CHOSEN) == ipaddress.IPv4Address("192.0.2.2")
    six = f"aa.0600123400000000{ipaddress.IPv6Address('2001:db8::1').packed.hex()}.x"
    assert network.address_in(six) == ipaddress.IPv6Address("2001:db8::1")
    for other in ("", "aa", "aa.00", "aa.05" + "0" * 46 + ".x", "aa.zz.x"):
        assert network.address_in(other) is None


def test_names_are_resolved_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    assert network.resolve("127.0.0.1", 10).addresses == ("127.0.0.1",)

    def fail(*_: object) -> None:
        raise socket.gaierror("no such name")

    monkeypatch.setattr(socket, "getaddrinfo", fail)
    assert network.resolve("nowhere", 10).trouble == "no such name"


def test_this_system_can_be_looked_at() -> None:
    by_name(network.judge(network.look(), told(), wanted="", family=""))
