"""Who is in a job, and what happens to a step: decisions alone.

Nothing here does I/O, reads a clock, starts a thread or knows torch: each decision is a function of the time, what was
known and what has happened. So the simulator and the property-based tests run the very code that a job runs.
"""
