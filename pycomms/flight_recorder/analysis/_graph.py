"""Strongly connected components, and what reaches what. Nodes are numbers; must not know: ranks, operations."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

Edges = Sequence[Sequence[int]]


def components(edges: Edges) -> list[list[int]]:
    """Tarjan's algorithm without recursion: a component comes after all those that it points to."""
    count = len(edges)
    order = [-1] * count
    low = [0] * count
    open_ = [False] * count
    path: list[int] = []
    found: list[list[int]] = []
    clock = 0
    for start in range(count):
        if order[start] >= 0:
            continue
        work = [(start, 0)]
        while work:
            node, next_edge = work.pop()
            if next_edge == 0:
                order[node] = low[node] = clock
                clock += 1
                path.append(node)
                open_[node] = True
            for at in range(next_edge, len(edges[node])):
                child = edges[node][at]
                if order[child] < 0:
                    work.append((node, at + 1))
                    work.append((child, 0))
                    break
                if open_[child]:
                    low[node] = min(low[node], low[child])
            else:
                if low[node] == order[node]:
                    cut = _last_index(path, node)
                    component = path[cut:]
                    del path[cut:]
                    for member in component:
                        open_[member] = False
                    found.append(sorted(component))
                if work:
                    parent = work[-1][0]
                    low[parent] = min(low[parent], low[node])
    return found


def _last_index(path: list[int], node: int) -> int:
    at = len(path) - 1
    while path[at] != node:
        at -= 1
    return at


def sinks(edges: Edges) -> list[list[int]]:
    """The components from which nothing leads elsewhere."""
    found = []
    for component in components(edges):
        inside = set(component)
        if all(child in inside for node in component for child in edges[node]):
            found.append(component)
    return found


def reaching(edges: Edges, targets: Iterable[int]) -> set[int]:
    """All nodes from which some target can be reached, the targets included."""
    back: list[list[int]] = [[] for _ in edges]
    for node, children in enumerate(edges):
        for child in children:
            back[child].append(node)
    seen = set(targets)
    work = list(seen)
    while work:
        for parent in back[work.pop()]:
            if parent not in seen:
                seen.add(parent)
                work.append(parent)
    return seen
