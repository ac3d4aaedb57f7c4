"""A checkpoint that several members write, each its own part: it is put together by whoever is the last to be done.

Members do not talk about it, for some may be dead by then: all that counts is which files are there. Each part is a
checkpoint of ``torch.distributed.checkpoint`` in a folder of its own; put together they are one, whose index knows of
the files of all parts.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from torch import Tensor
from torch.distributed.checkpoint.filesystem import FileSystemReader
from torch.distributed.checkpoint.metadata import Metadata, MetadataIndex, TensorStorageMetadata

from pycomms.ft._shards import sharded

METADATA = ".metadata"
"""torch.distributed.checkpoint writes it last."""
_CLAIM = "joining"


@dataclass(frozen=True, kw_only=True)
class Part:
    """What one member writes of a checkpoint.

    Attributes:
        index: of its part, from 0.
        of: how many there are.
        tag: of those who write this one together: others have another. Without a hyphen.
    """

    index: int = 0
    of: int = 1
    tag: str = field(default_factory=lambda: str(os.getpid()))

    def folder(self, whole: Path) -> Path:
        return whole if self.of == 1 else _part(whole, self.index)

    def of_state(self, state: dict[str, Any]) -> dict[str, Any]:
        """The first part has all that is not sharded."""
        return state if self.index == 0 else _only_sharded(state)

    def completes(self, whole: Path) -> bool:
        """Whether all parts are there now, and it falls to this member to put them together.

        Two may be the last at the same time, so one of them claims it.
        """
        if self.of == 1:
            return True
        if not all((_part(whole, one) / METADATA).is_file() for one in range(self.of)):
            return False
        try:
            (whole / _CLAIM).touch(exist_ok=False)
        except (FileExistsError, FileNotFoundError):  # claimed, or put together and renamed already
            return False
        return True


def put_together(whole: Path, parts: int) -> None:
    """Writes the index of all parts. To be called by the one that has claimed it."""
    told = [FileSystemReader(_part(whole, one)).read_metadata() for one in range(parts)]
    first = told[0]
    joined = replace(first, state_dict_metadata={}, storage_data={})
    for index, one in enumerate(told):
        _add(joined, one, _part(whole, index).name)
    with (whole / METADATA).open("wb") as file:
        pickle.dump(joined, file)
        file.flush()
        os.fsync(file.fileno())
    (whole / _CLAIM).unlink()


def _part(whole: Path, index: int) -> Path:
    return whole / f"part-{index}"


def _add(joined: Metadata, one: Metadata, folder: str) -> None:
    for name, told in one.state_dict_metadata.items():
        if not isinstance(told, TensorStorageMetadata):
            joined.state_dict_metadata.setdefault(name, told)
            continue
        into = joined.state_dict_metadata.setdefault(name, replace(told, chunks=[]))
        assert isinstance(into, TensorStorageMetadata)
        # A shard may be empty, and what lies on a mesh without being sharded is the same in all parts.
        known = {chunk.offsets for chunk in into.chunks}
        into.chunks += [chunk for chunk in told.chunks if chunk.offsets not in known and 0 not in chunk.sizes]
    for place, file in one.storage_data.items():
        moved = replace(file, relative_path=f"{folder}/{file.relative_path}")
        joined.storage_data.setdefault(MetadataIndex(place.fqn, place.offset), moved)


def _only_sharded(value: Mapping[str, Any]) -> dict[str, Any]:
    kept: dict[str, Any] = {}
    for key, one in value.items():
        if isinstance(one, Mapping):
            kept[key] = _only_sharded(one)
        elif isinstance(one, Tensor) and sharded(one) is not None:
            kept[key] = one
    return kept
