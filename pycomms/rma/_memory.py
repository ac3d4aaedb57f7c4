"""Memory for windows, and arrays of other libraries as tensors."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d

from pycomms.process_group import _tables

MOST_BYTES = 2**63 - 1


def empty(
    *size: int | Sequence[int],
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    group: dist.ProcessGroup | None = None,
) -> torch.Tensor:
    """A tensor whose memory the other ranks of the host can map: windows over it copy nothing when they are made.

    On the CPU it is filled with zeros. Its NumPy array and its DLPack capsule share the memory, so this is also how an
    array of another library becomes a window without a copy.

    Args:
        size: of each dimension, one by one or as one sequence.
        dtype: None: torch's default.
        device: None: the CPU. On a GPU the memory comes from NCCL's allocator.
        group: None: the default group.

    Raises:
        TypeError: the group is not one of pycomms, or size or dtype is none.
        ValueError: a dimension is negative, or there are more bytes than can be counted.
        RuntimeError: there is not so much memory.
    """
    chosen = c10d._get_default_group() if group is None else group
    backend = _tables.backend_of(chosen, "rma.empty")
    shape = _shape_of(size)
    kind = dtype if dtype is not None else torch.get_default_dtype()
    place = torch.device(device) if device is not None else torch.device("cpu")
    if not isinstance(kind, torch.dtype):
        raise TypeError(f"rma.empty: dtype is {kind!r}, expected a torch.dtype")
    count = math.prod(shape)
    if count * kind.itemsize > MOST_BYTES:
        raise ValueError(f"rma.empty: size is {shape}, expected at most {MOST_BYTES} bytes of {kind}")
    return backend.allocate_tensor(count, dtype=kind, device=place).view(shape)


def integer(op: str, name: str, value: Any) -> int:
    """``value`` as an integer; a TypeError names the operation and its argument."""
    try:
        return operator.index(value)
    except TypeError as err:
        raise TypeError(f"{op}: {name} is {value!r}, expected an integer") from err


def argument(op: str, name: str, value: Any, is_written: bool = True) -> torch.Tensor:
    """As `as_tensor`; an error names the operation and its argument."""
    try:
        return as_tensor(value, is_written)
    except ValueError as err:
        raise ValueError(f"{op}: {name}: {err}") from err
    except TypeError as err:
        raise TypeError(f"{op}: {name}: {err}") from err


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
    if isinstance(value, np.generic) and is_written:
        raise TypeError(f"{value!r} is a scalar of NumPy, which has no memory that can be written to")
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


def _shape_of(size: tuple[Any, ...]) -> tuple[int, ...]:
    given = size[0] if len(size) == 1 and isinstance(size[0], Sequence) and not isinstance(size[0], str) else size
    shape = tuple(integer("rma.empty", "size", each) for each in given)
    if any(each < 0 for each in shape):
        raise ValueError(f"rma.empty: size is {shape}, expected no dimension below 0")
    return shape
