"""The shape of a cluster: its hosts' addresses, and the orders to `ip` that make it.

    host0 [eth0]──────[h0]                    [h1]──────[eth0] host1
                          bridge in the switch                         each box is a network namespace of its own
    host2 [eth0]──────[h2]                    [h3]──────[eth0] host3

Pure: text out, nothing is run. Every cluster has the same addresses, since no two see each other.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

MOST_HOSTS = 200
INTERFACE = "eth0"
BRIDGE = "bridge"
SINK = "sink"  # a bridge without ports: what is sent to it is gone
SWITCH = "switch"


@dataclass(frozen=True)
class Addresses:
    """Of host `index`. The last two bytes of the hardware address tell the relay which port is meant."""

    index: int

    @property
    def name(self) -> str:
        return f"host{self.index}"

    @property
    def port(self) -> str:
        return f"h{self.index}"

    @property
    def ipv4(self) -> str:
        return f"10.77.0.{self.index + 1}"

    @property
    def ipv6(self) -> str:
        return f"fd70:7963::{self.index + 1:x}"

    @property
    def hardware(self) -> str:
        return f"02:70:79:63:{self.index >> 8:02x}:{self.index & 255:02x}"


def switch_orders(hosts: list[Addresses], namespaces: dict[str, str], mtu: int) -> Iterator[str]:
    """For `ip -batch` in the switch's namespace. The ports have no address: nothing in the switch answers anybody."""
    for device in (BRIDGE, SINK):
        yield f"link add {device} type bridge stp_state 0 mcast_snooping 0"
        yield f"link set {device} mtu {mtu} addrgenmode none up"
    for host in hosts:
        yield (
            f"link add {host.port} mtu {mtu} type veth"
            f" peer name {INTERFACE} mtu {mtu} address {host.hardware} netns {namespaces[host.name]}"
        )
        yield f"link set {host.port} addrgenmode none master {BRIDGE} up"


def host_orders(host: Addresses, hosts: list[Addresses]) -> Iterator[str]:
    """For `ip -batch` in a host's namespace.

    There is no default route. Neighbours are fixed: a host that was cut off is silent, as it is behind a router, and
    not "unreachable" after a while; and a seeded loss does not depend on when somebody was last asked for his address.
    """
    yield "link set lo up"
    yield f"addr add {host.ipv4}/24 dev {INTERFACE}"
    yield f"addr add {host.ipv6}/64 dev {INTERFACE} nodad"
    yield f"link set {INTERFACE} up"
    for other in hosts:
        if other != host:
            for address in (other.ipv4, other.ipv6):
                yield f"neigh add {address} lladdr {other.hardware} dev {INTERFACE} nud permanent"


def hosts_file(hosts: list[Addresses]) -> str:
    """What every host sees as /etc/hosts. A name means an IPv4 address; NAME-ipv6 is the other one."""
    rows = ["127.0.0.1 localhost", "::1 localhost"]
    rows += [f"{host.ipv4} {host.name}\n{host.ipv6} {host.name}-ipv6" for host in hosts]
    return "\n".join(rows) + "\n"
