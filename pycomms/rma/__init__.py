"""One-sided windows: memory of a rank that the other ranks read, write and update without its taking part::

    win = rma.Window(torch.zeros(1024))         # on every rank
    win.put(torch.ones(16), peer=1, offset=64)  # into the memory of rank 1
    win.flush(1)                                # it is there

What is ordered, and what is not: docs/rma.md.
"""

from pycomms.rma._memory import empty
from pycomms.rma._window import Lock, PeerMemory, Window

__all__ = ["Lock", "PeerMemory", "Window", "empty"]
