"""``pycomms doctor``: what works on this machine, and what to do about what does not.

Each section is a function that looks, and a pure one that judges what was seen. Whatever needs torch, the extension or
the engine is looked at in a child process: it may be missing, hang or crash, and that is to be said.
"""
