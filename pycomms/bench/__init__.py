"""The command ``pycomms bench``, and what the benchmarks of the repository have in common with it."""
