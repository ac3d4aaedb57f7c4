"""The training of each contestant: the same work, kept alive in another way."""
