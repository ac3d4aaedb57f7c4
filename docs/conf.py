"""The site: `make site`. Pages are plain Markdown that reads well where it lies; what only the site needs is here and
in _toc.yml, and the reference is made from docstrings and from the headers of libhostccl.so.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from sphinx.application import Sphinx

from pycomms._version import __version__

HERE = Path(__file__).parent
ROOT = HERE.parent

project = "pycomms"
author = "pycomms contributors"
project_copyright = "pycomms contributors, BSD 3-Clause license"
release = version = __version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_external_toc",
    "sphinx_copybutton",
]
source_suffix = {".md": "markdown"}
external_toc_path = "_toc.yml"
nitpicky = False  # annotations name types of torch and numpy, whose inventories are on the network
exclude_patterns = ["images/*"]

html_theme = "furo"
html_title = "pycomms"
html_show_sphinx = False

myst_heading_anchors = 3
myst_enable_extensions = ["colon_fence"]

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_class_signature = "mixed"
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_rtype = False
napoleon_use_ivar = True

linkcheck_timeout = 20  # seconds for one try
linkcheck_retries = 2
linkcheck_report_timeouts_as_broken = True

PAGES_OF = {
    ROOT / "CHANGELOG.md": "/project/changes.md",
    ROOT / "CONTRIBUTING.md": "/project/contributing.md",
    ROOT / "bench" / "README.md": "/project/benchmarks.md",
    ROOT / "examples" / "README.md": "/project/examples.md",
    ROOT / "launch" / "README.md": "/launch.md",
}
"""What lies outside of docs/ and is a page of the site."""

_LINK = re.compile(r"\[([^\]]+)\]\((?!https?:)([^)#\s]+)(#[^)\s]*)?\)")


def point_at_pages(text: str, folder: Path) -> str:
    """Links out of docs/ lead to the site's own page, if there is one; those to a folder become its name, and those to
    a file lead to it from the root of the site, wherever the text is included. folder: that of the text.
    """

    def replace(link: re.Match[str]) -> str:
        words, path, anchor = link[1], link[2], link[3] or ""
        target = (folder / path).resolve()
        if target.is_relative_to(HERE):
            return f"[{words}](/{target.relative_to(HERE)}{anchor})" if target.suffix == ".md" else link[0]
        if target in PAGES_OF:
            return f"[{words}]({PAGES_OF[target]}{anchor})"
        if target.is_dir():
            name = f"`{target.relative_to(ROOT).as_posix()}`"
            return name if words.strip("`") in (name.strip("`"), f"{name.strip('`')}/") else f"{words} ({name})"
        return f"[{words}](/{os.path.relpath(target, HERE)}{anchor})"

    return _LINK.sub(replace, text)


def on_source_read(app: Sphinx, page: str, source: list[str]) -> None:
    source[0] = point_at_pages(source[0], (HERE / page).parent)


def on_include_read(app: Sphinx, relative: Path, page: str, source: list[str]) -> None:
    source[0] = point_at_pages(source[0], (HERE / relative).resolve().parent)


def setup(app: Sphinx) -> None:
    app.connect("source-read", on_source_read)
    app.connect("include-read", on_include_read)
