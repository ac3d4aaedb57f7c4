"""How long a job takes to recover: from the kill of a rank, or the arrival of a new one, to a verified all_reduce.

See `python -m bench.recovery --help` and bench/README.md.
"""
