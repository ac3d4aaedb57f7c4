"""Memory for windows, and arrays of other libraries as tensors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d

from pycomms.process_group import _tables


def empty(
    *size: int,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    group: dist.ProcessGroup | None = None,
) -> torch.Tensor:
    """A tensor whose memory the other ranks of the host can map: windows over it copy nothing when they are made.

    On the CPU it is filled with zeros. Its NumPy array and its DLPack capsule share the memory, so this is also how an
    array of another library becomes a window without a copy.

    Args:
        size: of each dimension.
        dtype: None: torch's default.
        device: None: the CPU. On a GPU the memory comes from NCCL's allocator.
        group: None: the default group.

    Raises:
        TypeError: the group is not one of pycomms.
    """
    chosen = c10d._get_default_group() if group is None else group
    backend = _tables.backend_of(chosen, "rma.empty")
    kind = dtype if dtype is not None else torch.get_default_dtype()
    place = torch.device(device) if device is not None else torch.device("cpu")
    flat = backend.allocate_tensor(math.prod(size), dtype=kind, device=place)
    return flat.view(size)


def as_tensor(value: Any, is_written: bool = True) -> torch.Tensor:
    """``value`` as a tensor over the same memory. The extension calls it for what is no tensor.

    Args:
        is_written: it must not be read-only; otherwise one that is read-only is copied.

    Raises:
        TypeError: it is no tensor and no array that shows its memory.
        ValueError: it is read-only.
    """
    if isinstance(value, torch.Tensor):
        return value
    if hasattr(value, "__cuda_array_interface__"):
        return torch.as_tensor(value)
    if hasattr(value, "__array_interface__"):
        array = np.asarray(value)  # of such objects torch takes NumPy's own only
        if not array.flags.writeable:
            if is_written:
                raise ValueError("the array is read-only, and would be written to")
            array = array.copy()  # torch has no tensors that are read-only
        return torch.as_tensor(array)
    if hasattr(value, "__dlpack__"):
        return torch.utils.dlpack.from_dlpack(value)
    raise TypeError(
        f"expected a tensor, or an array with __array_interface__, __cuda_array_interface__ or __dlpack__, "
        f"got {type(value).__name__}"
    )
