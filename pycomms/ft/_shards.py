"""Tensors of which each member of a replica holds a part: what they are besides their part, in words that travel.

torch's DTensor is imported where there is one: it takes half as long to import as torch itself, and most sessions have
none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import Size, Tensor, nn

from pycomms.ft.errors import StateMismatch

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh
    from torch.distributed.tensor import DTensor


def sharded(tensor: Tensor) -> DTensor | None:
    """The tensor, if it is one of these."""
    if type(tensor) in (Tensor, nn.Parameter):
        return None
    from torch.distributed.tensor import DTensor

    return tensor if isinstance(tensor, DTensor) else None


def local_of(tensor: Tensor) -> Tensor:
    """What this process holds of it: all, of one that is not sharded. Shares its memory."""
    whole = sharded(tensor)
    return tensor.detach() if whole is None else whole.to_local().detach()


def like(tensor: Tensor, local: Tensor) -> Tensor:
    """One that is sharded as ``tensor`` is, if it is."""
    whole = sharded(tensor)
    return local if whole is None else rebuilt(layout_of(whole), local, whole.device_mesh)


def layout_of(tensor: DTensor) -> list[Any]:
    """Shape and stride of the whole, and the dimension that is sharded, or -1.

    Raises:
        StateMismatch: it is laid out in another way.
    """
    from torch.distributed.tensor import Replicate, Shard

    if tensor.device_mesh.ndim == 1:
        (placement,) = tensor.placements
        if type(placement) is Shard or isinstance(placement, Replicate):
            dim = placement.dim if isinstance(placement, Shard) else -1
            return [list(tensor.shape), list(tensor.stride()), dim]
    raise StateMismatch(
        f"a tensor has the placements {tensor.placements} on {tensor.device_mesh}; "
        "expected one dimension, sharded or replicated"
    )


def rebuilt(layout: list[Any], local: Tensor, mesh: DeviceMesh | None) -> DTensor:
    """Raises StateMismatch: this session has no replica."""
    from torch.distributed.tensor import DTensor, Replicate, Shard

    if mesh is None:
        raise StateMismatch("the state that was fetched is sharded; this session has no replica")
    shape, stride, dim = layout
    placement = Replicate() if dim < 0 else Shard(dim)
    return DTensor.from_local(local, mesh, [placement], run_check=False, shape=Size(shape), stride=tuple(stride))
