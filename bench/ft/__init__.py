"""How long a training stands when a worker is killed, and when another takes its place: ours and its peers.

See `python -m bench.ft --help` and bench/README.md.
"""
