"""Training that goes on when members of the job die or come."""
