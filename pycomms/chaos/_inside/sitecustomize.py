"""Python imports this at its start, because `pycomms chaos run` has put its folder first on PYTHONPATH. Nothing of
pycomms is imported. Then it imports the sitecustomize that would have been imported without it.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

_HERE = Path(__file__).parent


def _load() -> None:
    spec = importlib.util.spec_from_file_location("_pycomms_chaos", _HERE / "_pycomms_chaos" / "__init__.py")
    if spec is None or spec.loader is None:
        return
    module = importlib.util.module_from_spec(spec)
    sys.modules["_pycomms_chaos"] = module
    spec.loader.exec_module(module)
    module.start()


def _go_on() -> None:
    """With the next of that name on the path, if there is one."""
    sys.path[:] = [folder for folder in sys.path if Path(folder) != _HERE]
    own = sys.modules.pop("sitecustomize", None)
    try:
        importlib.import_module("sitecustomize")
    except ImportError as error:
        if error.name != "sitecustomize":
            raise
        if own is not None:
            sys.modules["sitecustomize"] = own


_load()
_go_on()
