"""Our backend on a real GPU, in one command and five minutes: `python -m tests.gpu`. docs/gpu.md has more."""
