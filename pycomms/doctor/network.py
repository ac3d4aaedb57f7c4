"""The section on the network: how ranks on other hosts would reach this one. Pure but for `look`."""

from __future__ import annotations

import array
import fcntl
import ipaddress
import re
import socket
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from pycomms.doctor.child import Told
from pycomms.doctor.finding import Finding, note, ok, problem

_RESOLVE_SECONDS = 3.0
_SLOW_SECONDS = 1.0
_SIOCGIFADDR = 0x8915
_SIZE_OF_REQUEST = 40
_RULE = "the first that is up and is neither loopback nor a bridge of containers; PYCOMMS_SOCKET_IFNAME chooses another"

Ip: TypeAlias = "ipaddress.IPv4Address | ipaddress.IPv6Address"


@dataclass(frozen=True, kw_only=True)
class Interface:
    name: str
    address: Ip


@dataclass(frozen=True, kw_only=True)
class Resolved:
    """A host name. seconds: that it took. trouble: why there is no address."""

    name: str
    addresses: tuple[str, ...]
    seconds: float
    trouble: str


@dataclass(frozen=True, kw_only=True)
class Seen:
    interfaces: tuple[Interface, ...]
    own_name: Resolved


def look() -> Seen:
    return Seen(interfaces=tuple(_interfaces()), own_name=resolve(socket.gethostname(), _RESOLVE_SECONDS))


def resolve(name: str, seconds: float) -> Resolved:
    """In a thread, which the resolver may hold up for minutes; the end of the process does not wait for it."""
    found: list[str] = []
    trouble: list[str] = []

    def ask() -> None:
        try:
            found.extend(sorted({str(one[4][0]) for one in socket.getaddrinfo(name, None)}))
        except (OSError, UnicodeError) as error:
            trouble.append(str(error))

    thread = threading.Thread(target=ask, name="resolver", daemon=True)
    began = time.monotonic()
    thread.start()
    thread.join(seconds)
    took = time.monotonic() - began
    if thread.is_alive():
        return Resolved(name=name, addresses=(), seconds=took, trouble=f"no answer within {seconds:g} s")
    return Resolved(name=name, addresses=tuple(found), seconds=took, trouble="".join(trouble))


def _interfaces() -> list[Interface]:
    """One IPv4 address of each, and all of IPv6."""
    found = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asker:
        for _, name in socket.if_nameindex():
            request = array.array("B", name.encode()[:15].ljust(_SIZE_OF_REQUEST, b"\0"))
            try:
                fcntl.ioctl(asker, _SIOCGIFADDR, request)
            except OSError:
                continue  # it has none
            found.append(Interface(name=name, address=ipaddress.IPv4Address(request[20:24].tobytes())))
    try:
        lines = Path("/proc/net/if_inet6").read_text().splitlines()
    except OSError:
        lines = []
    for line in lines:
        digits, *_, name = line.split()
        found.append(Interface(name=name, address=ipaddress.IPv6Address(bytes.fromhex(digits))))
    return found


def address_in(whereabouts: str) -> Ip | None:
    """The address in what the engine says of where this process is; None: it has none. csrc/hostccl/net/address.cpp has
    the form: family, 0, port (2), scope (4), address (16).
    """
    found = re.match(r"[^.]*\.(04|06)[0-9a-f]{14}([0-9a-f]{32})", whereabouts)
    if found is None:
        return None
    address = bytes.fromhex(found[2])
    return ipaddress.IPv4Address(address[:4]) if found[1] == "04" else ipaddress.IPv6Address(address)


def judge(seen: Seen, told: Told, *, wanted: str, family: str) -> list[Finding]:
    """wanted, family: PYCOMMS_SOCKET_IFNAME and PYCOMMS_SOCKET_FAMILY."""
    return [_judge_address(seen, told, wanted, family), _judge_name(seen.own_name)]


def _judge_address(seen: Seen, told: Told, wanted: str, family: str) -> Finding:
    engine = told.of("engine")
    if engine is None or engine["error"]:
        return note("address", "not looked at: the engine chooses it, and cannot be loaded")
    if engine["address_error"]:
        return problem("address", engine["address_error"], "mend the variable that it names (docs/env.md)")
    there = ", ".join(f"{one.name} {one.address}" for one in seen.interfaces) or "none"
    address = address_in(engine["address"])
    if address is None and (wanted or family):
        asked = " and ".join(
            filter(None, (wanted and f"PYCOMMS_SOCKET_IFNAME {wanted!r}", family and f"PYCOMMS_SOCKET_FAMILY {family}"))
        )
        return problem("address", f"no interface fits {asked}; there are: {there}", "mend or unset them")
    if address is None:
        return note(
            "address",
            f"this host has none for others, there are: {there}",
            "nothing, as long as all ranks are on this host",
        )
    name = next((one.name for one in seen.interfaces if one.address == address), "an interface")
    if address.is_loopback and not wanted:
        return note(
            "address",
            f"{address} ({name}): there is no other; ranks on other hosts cannot reach this one",
            "nothing, as long as all ranks are on this host",
            str(address),
        )
    why = f"by PYCOMMS_SOCKET_IFNAME={wanted}" if wanted else _RULE
    return ok("address", f"{address} ({name}): {why}", str(address))


def _judge_name(own: Resolved) -> Finding:
    todo = "on several hosts, name rank 0 by an address (MASTER_ADDR, --rdzv-endpoint), or mend /etc/hosts"
    if own.trouble:
        return note(
            "host name", f"{own.name} has no address: {own.trouble}; launchers may wait for that", todo, own.name
        )
    text = f"{own.name} is {', '.join(own.addresses)}"
    if own.seconds > _SLOW_SECONDS:
        return note(
            "host name",
            f"{text}, and it took {own.seconds:.1f} s to find out",
            "launchers wait for that: mend the resolver, or put it into /etc/hosts",
            own.name,
        )
    if all(ipaddress.ip_address(one.partition("%")[0]).is_loopback for one in own.addresses):
        return note("host name", f"{text}: by that name other hosts do not find this one", todo, own.name)
    return ok("host name", text, own.name)
