"""Every command line in the README and in docs/ names a program, subcommands and options that there are."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from pycomms.chaos._plans import plan_of
from tests.docs._blocks import PAGES, ROOT, blocks, name_of

# What the agent prints begins with "pycomms run:".
OURS = re.compile(
    r"^(?:\$ )?(?:\S+=\S+ )*(?P<words>(?:pycomms(?! run:)|python -m (?:pycomms|bench|tests|launch)\S*|make) .*)$"
)
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
NOTHING_IS_BEHIND = "--"  # of a command: another one


def commands(page: str) -> list[str]:
    """Without comments; a line that ends with a backslash goes on in the next."""
    lines = "\n".join(blocks(page, "")).replace("\\\n", " ").splitlines()
    found = [OURS.match(line.partition("  #")[0].strip()) for line in lines]
    return [match["words"] for match in found if match]


@cache
def help_of(words: tuple[str, ...]) -> str:
    """What a command says of itself; empty: there is no such command."""
    module = words[2] if words[:2] == ("python", "-m") else "pycomms"
    rest = words[3:] if words[0] == "python" else words[1:]
    asked = [sys.executable, "-m", module, *rest, "--help"]
    done = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    return done.stdout if done.returncode == 0 else ""


def subcommand(words: list[str]) -> tuple[str, ...]:
    """Of the words of a line, those that choose what is done."""
    chosen = 3 if words[0] == "python" else 1
    if words[0] == "pycomms" or words[2] == "pycomms":
        inner = {"fr", "chaos"}
        chosen += 2 if words[chosen] in inner and len(words) > chosen + 1 else 1
    elif words[2] == "launch.netns":
        chosen += 1
    return tuple(words[:chosen])


def complaint(line: str) -> str:
    """What is wrong with a command line; empty: nothing."""
    words = shlex.split(line, comments=True)
    if words[0] == "make":
        unknown = [word for word in words[1:] if "=" not in word and word not in TARGETS]
        return f"no such target: {', '.join(unknown)}" if unknown else ""
    own = words[: words.index(NOTHING_IS_BEHIND)] if NOTHING_IS_BEHIND in words else words
    said = help_of(subcommand(own))
    if not said:
        return f"no such command: {' '.join(subcommand(own))}"
    program = next((at for at, word in enumerate(own) if word.endswith(".py")), len(own))  # its options are its own
    options = [word.partition("=")[0] for word in own[:program] if word.startswith("--")]
    unknown = [option for option in options if not re.search(rf"{re.escape(option)}\b", said)]
    return f"no such option: {', '.join(unknown)}" if unknown else ""


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_commands_are_such_as_there_are(page: Path) -> None:
    wrong = {line: complaint(line) for line in commands(name_of(page))}
    assert not {line: why for line, why in wrong.items() if why}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_plans_of_faults_make_sense(page: Path, tmp_path: Path) -> None:
    for text in blocks(name_of(page), "toml"):
        plan = tmp_path / "plan.toml"
        plan.write_text(text)
        assert plan_of(plan).faults


def test_commands_are_found() -> None:
    assert len([line for page in PAGES for line in commands(name_of(page))]) > 20
    assert complaint("pycomms fr analyse DIR")
    assert complaint("pycomms run --nproc-per-nude 4 train.py")
    assert complaint("make tea")
    assert not complaint("pycomms run --nproc-per-node 4 train.py --own 3")
