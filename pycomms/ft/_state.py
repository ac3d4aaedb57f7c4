"""The whole state of a training, as one row of bytes and what is to be known to read it."""

from __future__ import annotations

import io
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import Tensor, nn

from pycomms.ft._shards import layout_of, local_of, rebuilt, sharded
from pycomms.ft.errors import StateMismatch

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh

_ALIGNMENT = 64


class Stateful(Protocol):
    """What models, optimizers, schedulers and samplers have."""

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state_dict: dict[str, Any]) -> Any: ...


@dataclass(frozen=True)
class Piece:
    """A tensor's place among the bytes."""

    offset: int
    shape: tuple[int, ...]
    dtype: torch.dtype

    @property
    def nbytes(self) -> int:
        return prod(self.shape) * self.dtype.itemsize

    @property
    def end(self) -> int:
        return self.offset + self.nbytes


@dataclass(frozen=True)
class Snapshot:
    """A state taken apart. The tensors are the training's own, of a sharded one the part here, and change with it.

    Attributes:
        own_nbytes: of the bytes in front, which differ from member to member: a receiver takes them from one of them.
    """

    skeleton: Any
    tensors: tuple[Tensor, ...]
    pieces: tuple[Piece, ...]
    own_nbytes: int

    @property
    def nbytes(self) -> int:
        return _extent(self.pieces)

    def manifest(self) -> bytes:
        """What another process needs to make a state of the bytes: nothing in it can run code."""
        shapes = [(piece.offset, list(piece.shape), piece.dtype) for piece in self.pieces]
        stream = io.BytesIO()
        torch.save({"skeleton": self.skeleton, "pieces": shapes, "own_nbytes": self.own_nbytes}, stream)
        return stream.getvalue()


@dataclass(frozen=True)
class Manifest:
    """What a snapshot's manifest says."""

    skeleton: Any
    pieces: tuple[Piece, ...]
    own_nbytes: int

    @property
    def nbytes(self) -> int:
        return _extent(self.pieces)

    def put_together(self, data: Tensor, mesh: DeviceMesh | None = None) -> dict[str, Any]:
        """The state dicts, whose tensors are views of ``data``, uint8; mesh: of those that are sharded."""
        tensors = [data[piece.offset : piece.end].view(piece.dtype).view(piece.shape) for piece in self.pieces]
        state: dict[str, Any] = _with_tensors(self.skeleton, tensors, mesh)
        return state


def parts_of(
    model: nn.Module | None,
    optimizer: Stateful | None,
    scheduler: Any,
    scaler: Any,
    sampler: Stateful | None,
    outer: Stateful | None,
    state: Mapping[str, Stateful] | None,
) -> dict[str, Stateful]:
    """All that a session keeps, by name. Raises ValueError where a name is taken."""
    own = {
        "model": model,
        "optimizer": optimizer,
        "scheduler": scheduler,
        "scaler": scaler,
        "sampler": sampler,
        "outer": outer,
    }
    parts: dict[str, Stateful] = {name: part for name, part in own.items() if part is not None}
    for name, part in (state or {}).items():
        if name in own:
            raise ValueError(f"Session: state has a part {name!r}, which is a name of the session's own")
        parts[name] = part
    return parts


def take_apart(parts: Mapping[str, Stateful], own_parts: Collection[str] = ()) -> Snapshot:
    """Buffers of modules lie in front: they follow what a member has computed by itself. So do ``own_parts``."""
    tensors: list[Tensor] = []
    skeleton: dict[str, Any] = {}
    own: set[int] = set()
    for name, part in parts.items():
        first = len(tensors)
        skeleton[name] = _without_tensors(part.state_dict(), tensors)
        buffers = part.buffers() if isinstance(part, nn.Module) else ()
        mine = tensors[first:] if name in own_parts else buffers
        own |= {tensor.data_ptr() for tensor in mine if tensor.numel()}
    pieces: dict[int, Piece] = {}
    offset = own_nbytes = 0
    for is_own in (True, False):
        for index, tensor in enumerate(tensors):
            if (tensor.data_ptr() in own) is is_own:
                pieces[index] = Piece(offset, tuple(tensor.shape), tensor.dtype)
                offset = -(-pieces[index].end // _ALIGNMENT) * _ALIGNMENT
        own_nbytes = offset if is_own else own_nbytes
    placed = tuple(pieces[index] for index in range(len(tensors)))
    return Snapshot(skeleton, tuple(tensors), placed, min(own_nbytes, _extent(placed)))


def read_manifest(manifest: bytes) -> Manifest:
    """Raises StateMismatch where it is not one that this version writes."""
    try:
        told = torch.load(io.BytesIO(manifest), weights_only=True)
        pieces = tuple(Piece(offset, tuple(shape), dtype) for offset, shape, dtype in told["pieces"])
        return Manifest(told["skeleton"], pieces, int(told["own_nbytes"]))
    except Exception as err:  # the unpickler answers damage with whatever it stumbles over
        raise StateMismatch(f"the manifest of another member's state cannot be read: {err}") from err


def load(parts: Mapping[str, Stateful], state: Mapping[str, Any]) -> None:
    """Raises StateMismatch where the two have not the same parts, or a part refuses its state."""
    if parts.keys() != state.keys():
        raise StateMismatch(
            f"the state that was fetched has {', '.join(sorted(state))}; this session has {', '.join(sorted(parts))}"
        )
    for name, part in parts.items():
        try:
            part.load_state_dict(state[name])
        except Exception as err:  # a part is the program's, and raises what it likes
            raise StateMismatch(f"the {name} that was fetched does not fit: {err}") from err


_HOLE = "__pycomms_tensor__"
_LAYOUT = "__pycomms_layout__"


def _extent(pieces: tuple[Piece, ...]) -> int:
    return max((piece.end for piece in pieces), default=0)


def _without_tensors(value: Any, tensors: list[Tensor]) -> Any:
    """With a hole for each tensor, made of what torch.load admits without any class."""
    if isinstance(value, Tensor):
        tensors.append(local_of(value))
        hole: dict[str, Any] = {_HOLE: len(tensors) - 1}
        whole = sharded(value)
        if whole is not None:
            hole[_LAYOUT] = layout_of(whole)
        return hole
    if isinstance(value, Mapping):
        return {key: _without_tensors(one, tensors) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        kept = [_without_tensors(one, tensors) for one in value]
        return kept if isinstance(value, list) else tuple(kept)
    return value


def _with_tensors(value: Any, tensors: list[Tensor], mesh: DeviceMesh | None) -> Any:
    if isinstance(value, dict):
        if _HOLE in value:
            tensor = tensors[value[_HOLE]]
            return rebuilt(value[_LAYOUT], tensor, mesh) if _LAYOUT in value else tensor
        return {key: _with_tensors(one, tensors, mesh) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_with_tensors(one, tensors, mesh) for one in value)
    return value
