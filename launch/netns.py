"""A cluster of hosts on one machine: network namespaces, with controls for what lies between them.

    python -m launch.netns run --hosts 2 --per-host 2 --latency 50ms -- python train.py
    python -m launch.netns check      # can clusters be made here? exit status 0 or 69
    python -m launch.netns clean      # remove what killed clusters left behind

    from launch.netns import Cluster, Wire
    with Cluster(hosts=2) as cluster:
        cluster.cut(speaker=0, listener=1)

It needs root, or CAP_NET_ADMIN and CAP_SYS_ADMIN, and iproute2. docs/launch.md has a page about it.
"""

from launch._netns.cluster import Cluster
from launch._netns.command import main
from launch._netns.host import Host
from launch._netns.relay import Counts
from launch._netns.removal import Removed, clean
from launch._netns.shaping import Direction, Wire
from launch._netns.system import NetnsError, Unavailable, reason_unavailable

__all__ = [
    "Cluster",
    "Counts",
    "Direction",
    "Host",
    "NetnsError",
    "Removed",
    "Unavailable",
    "Wire",
    "clean",
    "main",
    "reason_unavailable",
]

if __name__ == "__main__":
    raise SystemExit(main())
