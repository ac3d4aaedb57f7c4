"""Whether the GPU that this process computes on still answers."""

from __future__ import annotations

import torch

from pycomms.ft.errors import DeviceLost


def check() -> None:
    """Raises DeviceLost where every call to it returns an error from now on, as after a kernel that has failed.

    Waits for nothing, and does not touch a device that was not used.
    """
    if not torch.cuda.is_initialized():
        return
    try:
        torch.cuda.current_stream().query()
    except RuntimeError as error:
        device = torch.cuda.current_device()
        why = str(error).partition("\n")[0]
        raise DeviceLost(f"cuda:{device} cannot be used by this process any more, end it: {why}") from error
