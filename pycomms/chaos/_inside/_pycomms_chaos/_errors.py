"""What goes wrong on purpose, and what cannot."""

from __future__ import annotations


class ChaosError(RuntimeError):
    """What the plan has this process raise."""


class NotPossibleError(Exception):
    """The fault cannot be done to this process, or to this operation."""
