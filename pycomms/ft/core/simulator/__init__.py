"""A job in one process, without a clock: members, hosts, coordinators and the network between them, from a seed.

The quorum, the recovery plan and the step protocol are the ones that a job runs. What is modelled is around them: when
messages come, whether they come, and what an operation of the group looks like to each of its members when one dies.
"""
