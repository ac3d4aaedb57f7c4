"""Reads what rank.py printed. Pure."""

from __future__ import annotations

import json
from typing import Any


def read_answers(output: str) -> list[dict[str, Any]]:
    """One object for each rank, in no order. mpirun may have put the lines of two ranks into one."""
    found, decoder, text = [], json.JSONDecoder(), output.strip()
    while text:
        answer, end = decoder.raw_decode(text)
        found.append(answer)
        text = text[end:].lstrip()
    return found
