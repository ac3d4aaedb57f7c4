"""What is handed out: the source distribution, the wheel that is built from it, and the stubs in it."""
