"""Random faults around regroups: what is planned from a seed, and how it is played."""

from .plan import Death, Moment, Round, Schedule, draw
from .play import play

__all__ = ["Death", "Moment", "Round", "Schedule", "draw", "play"]
