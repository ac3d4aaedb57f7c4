"""Takes a cluster away: at its owner's end, or when the owner was killed (`python -m launch.netns clean`)."""

from __future__ import annotations

import shutil
from dataclasses import dataclass

from .members import kill_all
from .names import ETC, RUN, ClusterName, clusters
from .system import NetnsError, run


@dataclass(frozen=True, kw_only=True)
class Removed:
    cluster: str
    parts: list[str]
    processes: list[int]


def remove(name: ClusterName) -> Removed:
    """Removes all that exists of a cluster: processes, namespaces with the links in them, files. May be called again.

    Raises NetnsError for the first thing that would not go, after it has tried all.
    """
    parts = name.leftovers()
    namespaces = [part for part in parts if (RUN / part).exists()]
    errors: list[NetnsError] = []
    killed: list[int] = []
    try:
        killed = kill_all(namespaces)
    except NetnsError as err:
        errors.append(err)
    for part in namespaces:
        try:
            run("ip", "netns", "delete", part)
        except NetnsError as err:
            errors.append(err)
    for part in parts:
        shutil.rmtree(ETC / part, ignore_errors=True)
    if errors:
        raise errors[0]
    return Removed(cluster=name.text, parts=parts, processes=killed)


def clean() -> list[Removed]:
    """Removes every cluster whose owner is gone."""
    return [remove(name) for name in clusters() if not name.owned()]
