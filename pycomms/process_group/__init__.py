"""Process groups of the ``nccl2`` backend: their options."""

from pycomms._C import Connect, NanCheck, Options

__all__ = ["Connect", "NanCheck", "Options"]
