"""The coordinator of a job: one small service that says who is in. It trains nothing and keeps nothing that its members
could not tell it again.
"""
