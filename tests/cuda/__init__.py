"""GPU tensors on the emulated CUDA, several real processes at a time; libhostccl stands in for libnccl.

In a pytest of their own (`make cuda`), because torch binds to its CUDA runtime when it is imported.
"""
