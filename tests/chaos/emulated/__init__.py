"""Faults of GPUs and of NCCL, on the emulated CUDA: the standard job there, and plans for it."""
