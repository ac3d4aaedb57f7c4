"""A call of torch.distributed that the plan may change before it is made."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class LeftOut:
    """Stands for the Work of an operation that was not done."""

    def wait(self, *_: object) -> bool:
        return True

    def is_completed(self) -> bool:
        return True

    def is_success(self) -> bool:
        return True

    def result(self) -> list[Any]:
        return []


class Operation:
    """Attributes:
    times: how often it is called.
    before, behind: to be called then, with no argument.
    """

    def __init__(self, name: str, call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.name = name
        self.args = args
        self.kwargs = kwargs
        self.times = 1
        self.before: list[Callable[[], None]] = []
        self.behind: list[Callable[[], None]] = []
        self._call = call

    def run(self) -> Any:
        for change in self.before:
            change()
        result: Any = LeftOut() if self.times == 0 else None
        for _ in range(self.times):
            result = self._call(*self.args, **self.kwargs)
        if self.behind:
            if hasattr(result, "wait"):
                result.wait()
            for change in self.behind:
                change()
        return result

    def tensors(self) -> list[Any]:
        """Of the arguments, in their order; of lists, what is in them."""
        found: list[Any] = []
        for value in (*self.args, *self.kwargs.values()):
            found += [one for one in (value if isinstance(value, (list, tuple)) else [value]) if _is_tensor(one)]
        return found

    def replace(self, old: Any, new: Any) -> None:
        def put(value: Any) -> Any:
            if isinstance(value, (list, tuple)):
                return type(value)(put(one) for one in value)
            return new if value is old else value

        self.args = tuple(put(value) for value in self.args)
        self.kwargs = {name: put(value) for name, value in self.kwargs.items()}


def _is_tensor(value: object) -> bool:
    return type(value).__module__.startswith("torch") and hasattr(value, "data_ptr")
