"""Benchmarks of pycomms beside its peers and the machine's limits, all in one run. See `python -m bench --help`."""
