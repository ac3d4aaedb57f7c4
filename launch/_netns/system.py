"""Runs iproute2, and finds out whether this machine lets us make namespaces. Any thread."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterable, Sequence
from functools import cache

COMMAND_TIMEOUT_S = 20.0
TOOLS = {"ip": "iproute2", "tc": "iproute2", "unshare": "util-linux"}


class NetnsError(Exception):
    """The operating system refused something while a cluster was made, changed or removed."""


class Unavailable(NetnsError):
    """No cluster can be made on this machine, or not by this user; the text says why."""


def run(*command: str, input_text: str | None = None) -> str:
    """The output of a command that is expected to end at once. Raises NetnsError with what it said."""
    try:
        done = subprocess.run(
            command,
            input=input_text,
            capture_output=True,
            text=True,
            timeout=COMMAND_TIMEOUT_S,
            check=False,
            start_new_session=True,  # Ctrl-C is ours to handle: a half-made cluster is removed by us
        )
    except FileNotFoundError as err:
        raise Unavailable(f"{command[0]} is not installed") from err
    except subprocess.TimeoutExpired as err:
        raise NetnsError(f"`{' '.join(command)}` did not end within {COMMAND_TIMEOUT_S:.0f} s") from err
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip() or f"exit status {done.returncode}"
        raise NetnsError(f"`{' '.join(command)}`: {said}")
    return done.stdout


def batch(tool: str, namespace: str, orders: Iterable[str]) -> None:
    """Runs `ip` or `tc` once for many orders inside a namespace; the first that fails ends it."""
    text = "".join(f"{order}\n" for order in orders)
    if text:
        try:
            run(tool, "-n", namespace, "-batch", "-", input_text=text)
        except NetnsError as err:
            raise NetnsError(f"{err}\nthe orders were:\n{text}") from err


def inside(namespace: str, hostname: str, argv: Sequence[str]) -> list[str]:
    """The command that becomes `argv` inside a namespace, with the same process id, under a host name of its own."""
    rename = 'echo "$0" >/proc/sys/kernel/hostname && exec "$@"'
    return ["ip", "netns", "exec", namespace, "unshare", "--uts", "sh", "-c", rename, hostname, *argv]


@cache
def reason_unavailable() -> str | None:
    """Why no cluster can be made here, or None. Asks the kernel by making a namespace with a veth, once."""
    for tool, package in TOOLS.items():
        if shutil.which(tool) is None:
            return f"{tool} is not installed (package {package})"
    probe = (
        "ip netns add pycomms-probe-$$ && ip netns delete pycomms-probe-$$"
        " && ip link set lo up"
        " && ip link add probe0 type veth peer name probe1 && ip link add sink type bridge"
        " && tc qdisc add dev probe0 clsact"
        " && tc filter add dev probe0 egress protocol all pref 1 u32"
        " match ether src 02:00:00:00:00:01 action mirred egress redirect dev sink"
    )
    try:
        run("unshare", "--net", "--uts", "--mount", "sh", "-c", probe)
    except NetnsError as err:
        said = str(err).rpartition("`: ")[2]
        return f"network namespaces need root (CAP_NET_ADMIN and CAP_SYS_ADMIN) and veth, bridge and u32: {said}"
    return None


def require() -> None:
    reason = reason_unavailable()
    if reason is not None:
        raise Unavailable(reason)
