"""What runs in the ranks of the benchmark."""
