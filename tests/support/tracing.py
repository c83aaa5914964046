"""Which functions of the package a call goes through."""

from __future__ import annotations

import sys
import threading
from contextlib import contextmanager
from pathlib import Path

import squaresvm

_PACKAGE = str(Path(squaresvm.__file__).parent)


@contextmanager
def traced():
    """Collect, call by call, the names that it goes by: ``train``, ``train.train``, ``SquareSVM.fit``.

    Where an object is made, that is the name of its class.
    """
    calls: list[tuple[str, ...]] = []

    def look(frame, event, _):
        if event == "call":
            names = _names(frame)
            if names:
                calls.append(names)

    threading.setprofile(look)
    sys.setprofile(look)
    try:
        yield calls
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


def _names(frame):
    code = frame.f_code
    if code.co_name == "__init__":
        # Dataclasses write theirs at run time, in no file: the object itself says whose it is.
        kind = type(frame.f_locals.get("self"))
        return (kind.__name__,) if kind.__module__.startswith("squaresvm") else ()
    if not code.co_filename.startswith(_PACKAGE):
        return ()
    path = Path(code.co_filename)
    module = path.parent.name if path.stem == "__init__" else path.stem
    return (code.co_qualname, f"{module}.{code.co_qualname}")
