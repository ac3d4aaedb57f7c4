"""What all pages of reports have in common: one file each, without a script or anything from elsewhere."""

from __future__ import annotations

from importlib.resources import files
from string import Template


def page(body: str, title: str, **given: object) -> str:
    """body: the file of it, in this folder. All that is given has to be escaped already."""
    return _template("page.html").substitute(title=title, body=_template(body).substitute(given))


def _template(name: str) -> Template:
    return Template(files("pycomms.chaos").joinpath("_report").joinpath(name).read_text("utf-8"))
