"""The standard plans of `pycomms chaos` on others: what becomes of their jobs, and the table that says it.

See bench/README.md.
"""
