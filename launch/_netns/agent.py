"""What a launcher may call instead of ssh, so that mpiexec on one host of a cluster starts ranks on the others.

Pure: text out, nothing is run.
"""

from __future__ import annotations

from .names import ClusterName

#: agent [-OPTION...] HOST COMMAND...
_SCRIPT = """#!/bin/sh
while [ "${{1#-}}" != "$1" ]; do shift; done
host=$1
shift
exec ip netns exec {cluster}-$host unshare --uts sh -c 'echo "$0" >/proc/sys/kernel/hostname && eval "$*"' $host "$@"
"""


def agent_script(cluster: ClusterName) -> str:
    """A shell script. What it starts has the launcher's environment, and ends with the cluster at the latest."""
    return _SCRIPT.format(cluster=cluster.text)
