"""Starts the job, carries out what is done to it from outside, writes down what happens, and leaves nothing behind."""
