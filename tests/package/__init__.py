"""What is handed out: whether the stubs fit what they describe."""
