"""Names of clusters. A name says who owns the cluster, so that what a killed owner left behind can be told from what is
in use: process id and start time, which no later process has in common, and a random part.

    pycomms-<pid>-<start time>-<random>-host0       a namespace, and the folder of its files in /etc/netns
"""

from __future__ import annotations

import os
import re
import secrets
from dataclasses import dataclass
from pathlib import Path

RUN = Path("/run/netns")
ETC = Path("/etc/netns")

_NAME = re.compile(r"(pycomms-(\d+)-(\d+)-[0-9a-f]+)-(?:host\d+|switch)")


@dataclass(frozen=True)
class ClusterName:
    text: str
    pid: int
    started: int

    @classmethod
    def new(cls) -> ClusterName:
        pid = os.getpid()
        started = start_time(pid)
        return cls(f"pycomms-{pid}-{started}-{secrets.token_hex(3)}", pid, started)

    def namespace(self, part: str) -> str:
        return f"{self.text}-{part}"

    def owned(self) -> bool:
        """Whether the process that made it is alive."""
        return start_time(self.pid) == self.started

    def leftovers(self) -> list[str]:
        """What exists of it: namespaces and folders, by name."""
        found = {path.name for folder in (RUN, ETC) if folder.is_dir() for path in folder.iterdir()}
        return sorted(name for name in found if name.startswith(f"{self.text}-"))


def clusters() -> list[ClusterName]:
    """All of which anything exists on this machine."""
    found = {
        ClusterName(match[1], int(match[2]), int(match[3]))
        for folder in (RUN, ETC)
        if folder.is_dir()
        for path in folder.iterdir()
        if (match := _NAME.fullmatch(path.name))
    }
    return sorted(found, key=lambda name: name.text)


def start_time(pid: int) -> int:
    """Of a process, in clock ticks since the machine started; -1 when there is none, or it has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return -1
    return -1 if fields[0] in "ZX" else int(fields[19])
