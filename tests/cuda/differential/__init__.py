"""The same cases on our backend and on torch's own, on the same emulated CUDA: `python -m tests.cuda.differential`."""
