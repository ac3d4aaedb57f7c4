"""``pycomms run``: torchrun's command line, with an agent that starts again only the worker that died.

One agent runs per host. It knows neither torch nor tensors: it starts processes, sees them end, passes on what they and
the coordinator say to each other, and shows their output.
"""
