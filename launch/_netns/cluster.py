"""A cluster of hosts on this machine: makes it, changes what lies between the hosts, and takes it away.

One thread at a time. What the orders to the kernel say is decided in plan.py and shaping.py.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from .agent import agent_script
from .host import Host
from .names import ETC, ClusterName
from .plan import BRIDGE, INTERFACE, MOST_HOSTS, SWITCH, Addresses, host_orders, hosts_file, switch_orders
from .relay import Counts, Relay
from .removal import remove
from .shaping import LEAST_RATE, PLAIN, Direction, Wire, across, cut_orders, rate_orders
from .signals import deferred, exit_on_sigterm
from .system import batch, require, run

if TYPE_CHECKING:
    from typing_extensions import Self

_REAP_TIMEOUT = timedelta(seconds=5)
_SEGMENTS = 65535


class Cluster:
    """`hosts` hosts, each in a network namespace, that see each other and nothing else.

        with Cluster(hosts=2) as cluster:
            cluster.hosts[0].run(["python", "server.py"])

    At the end of the block everything is gone: processes on the hosts, namespaces, links. While it exists, SIGTERM ends
    the program as Ctrl-C does, through the end of the block, unless the program handles it.

    wire: what lies between any two hosts. rate: bit/s that each host sends and gets at most; None is no limit.
    seed: of the losses: the n-th frame from one host to another is lost or not, whenever it comes.

    Raises Unavailable where no namespaces can be made, NetnsError when the system refuses something.
    """

    def __init__(
        self, *, hosts: int, wire: Wire = PLAIN, rate: int | None = None, seed: int = 0, mtu: int = 1500
    ) -> None:
        if not 1 <= hosts <= MOST_HOSTS:
            raise ValueError(f"hosts must be from 1 to {MOST_HOSTS}, not {hosts}")
        if not 1280 <= mtu <= 65535:
            raise ValueError(f"mtu must be from 1280 (IPv6 needs that) to 65535, not {mtu}")
        _check_rate(rate)
        self.name = ClusterName.new()
        self._plan = [Addresses(index) for index in range(hosts)]
        self.hosts = tuple(Host(plan, self.name.namespace(plan.name)) for plan in self._plan)
        self._switch = self.name.namespace(SWITCH)
        self._mtu = mtu
        self._seed = seed
        self._first = (wire, rate)
        self._wires: dict[Direction, Wire] = dict.fromkeys(self._ways(), PLAIN)
        self._rates: list[int | None] = [None] * hosts
        self._cuts: set[Direction] = set()
        self._partition: set[Direction] = set()
        self._applied: set[Direction] = set()  # what the kernel has been told of the two above
        self._relay: Relay | None = None
        self._undo_signals: Callable[[], None] = lambda: None

    def __enter__(self) -> Self:
        require()
        self._undo_signals = exit_on_sigterm()
        try:
            self._make()
            self.set_rate(self._first[1])
            self.set_wire(self._first[0])
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Ends all processes on the hosts and removes the cluster. May be called again."""
        with deferred():
            try:
                if self._relay is not None:
                    self._relay.close()
                    self._relay = None
                for host in self.hosts:
                    host.kill()
                remove(self.name)
                for host in self.hosts:
                    host.reap(_REAP_TIMEOUT)
            finally:
                self._undo_signals()
                self._undo_signals = lambda: None

    def set_wire(self, wire: Wire, *, speaker: int | None = None, listener: int | None = None) -> None:
        """Latency and loss from `speaker` to `listener`; without either, from or to every host.

        While any wire is not plain, frames go through the relay, and without loss they go as fast as it copies. When it
        starts and when it ends, frames that are under way are lost.
        """
        ways = [way for way in self._ways() if speaker in (None, way.speaker) and listener in (None, way.listener)]
        self._check_host(speaker)
        self._check_host(listener)
        self._wires.update(dict.fromkeys(ways, wire))
        wanted = any(one != PLAIN for one in self._wires.values())
        # Loss is a matter of frames as they are on a wire, so then they leave the host in that size.
        segments = 1 if any(one.loss for one in self._wires.values()) else _SEGMENTS
        for host in self.hosts:
            batch("ip", host.namespace, [f"link set {INTERFACE} gso_max_segs {segments}"])
        if self._relay is not None and not wanted:
            self._relay.close()
            self._relay = None
            batch("ip", self._switch, [f"link set {plan.port} master {BRIDGE}" for plan in self._plan])
        elif self._relay is None and wanted:
            self._relay = Relay(self._switch, [plan.port for plan in self._plan], self._seed)
            self._tell(self._ways())
            batch("ip", self._switch, [f"link set {plan.port} nomaster" for plan in self._plan])
            self._relay.go()
        else:
            self._tell(ways)

    def set_rate(self, rate: int | None, *, host: int | None = None) -> None:
        """Bit/s that a host, or each, sends and gets at most. None: no limit."""
        _check_rate(rate)
        self._check_host(host)
        for plan in self._plan:
            if host in (None, plan.index):
                sent, got = rate_orders(plan, rate, self._rates[plan.index])
                batch("tc", self.hosts[plan.index].namespace, sent)
                batch("tc", self._switch, got)
                self._rates[plan.index] = rate

    def link_down(self, host: int) -> None:
        """Pulls the host's cable: it sees no carrier, and what it sends is gone."""
        self._check_host(host)
        batch("ip", self._switch, [f"link set {self._plan[host].port} down"])

    def link_up(self, host: int) -> None:
        self._check_host(host)
        batch("ip", self._switch, [f"link set {self._plan[host].port} up"])

    def cut(self, *, speaker: int, listener: int) -> None:
        """The listener no longer hears the speaker, who still hears him. Nobody is told."""
        self._check_host(speaker)
        self._check_host(listener)
        if speaker == listener:
            raise ValueError(f"speaker and listener must be two hosts, not {speaker} twice")
        self._cuts.add(Direction(speaker, listener))
        self._apply_cuts()

    def partition(self, *sides: Collection[int]) -> None:
        """Hosts hear only those of their own side. Hosts that are not named are on a side together."""
        self._partition = across(sides, len(self.hosts))
        self._apply_cuts()

    def heal(self) -> None:
        """Undoes every cut, partition and pulled cable. Wires and rates stay."""
        self._cuts.clear()
        self._partition.clear()
        self._apply_cuts()
        batch("ip", self._switch, [f"link set {plan.port} up" for plan in self._plan])

    def write_agent(self, path: Path) -> None:
        """Writes a program that launchers, such as mpiexec, may call instead of ssh."""
        path.write_text(agent_script(self.name))
        path.chmod(0o700)

    def counts(self) -> Counts:
        """What the relay has carried since it began. All zero while there is none."""
        if self._relay is None:
            return Counts(carried=0, lost=0, dropped=0, latest=timedelta(0))
        return self._relay.counts()

    def _make(self) -> None:
        with deferred():
            namespaces = {plan.name: host.namespace for plan, host in zip(self._plan, self.hosts, strict=True)}
            for namespace in (self._switch, *namespaces.values()):
                run("ip", "netns", "add", namespace)
            batch("ip", self._switch, switch_orders(self._plan, namespaces, self._mtu))
            batch("tc", self._switch, [f"qdisc add dev {plan.port} clsact" for plan in self._plan])
            for plan, host in zip(self._plan, self.hosts, strict=True):
                batch("ip", host.namespace, host_orders(plan, self._plan))
                folder = ETC / host.namespace  # `ip netns exec` lays its files over those in /etc
                folder.mkdir(parents=True)
                (folder / "hosts").write_text(hosts_file(self._plan))

    def _apply_cuts(self) -> None:
        wanted = self._cuts | self._partition
        batch("tc", self._switch, cut_orders(self._plan, wanted - self._applied, self._applied - wanted))
        self._applied = wanted

    def _tell(self, ways: Collection[Direction]) -> None:
        if self._relay is not None:
            for way in ways:
                self._relay.set(way, self._wires[way])

    def _ways(self) -> list[Direction]:
        indices = [plan.index for plan in self._plan]
        return [Direction(a, b) for a in indices for b in indices if a != b]

    def _check_host(self, host: int | None) -> None:
        if host is not None and not 0 <= host < len(self.hosts):
            raise ValueError(f"host must be from 0 to {len(self.hosts) - 1}, not {host}")


def _check_rate(rate: int | None) -> None:
    if rate is not None and rate < LEAST_RATE:
        raise ValueError(f"rate must be at least {LEAST_RATE} bit/s, or None, not {rate}")
