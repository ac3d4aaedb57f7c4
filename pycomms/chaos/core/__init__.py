"""Plans, and what is made of the log of a run: pure functions. No process, file, clock or torch."""
