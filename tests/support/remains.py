"""Finds what is left of a row in an estimator: walks everything that can be reached from it."""

from __future__ import annotations

import gc
import struct
import types

import numpy as np

#: Not walked: what belongs to the program and not to the model.
_CODE = (type, types.ModuleType, types.BuiltinFunctionType, types.CodeType)


def reachable(root):
    """Return all objects that can be reached from one: attributes, elements, closures, bases of views."""
    found, waiting = {}, [root]
    while waiting:
        thing = waiting.pop()
        if id(thing) in found or isinstance(thing, _CODE):
            continue
        found[id(thing)] = thing
        if isinstance(thing, types.FunctionType):  # Its globals are the program's.
            waiting += [cell.cell_contents for cell in thing.__closure__ or ()]
            waiting += thing.__defaults__ or ()
        elif isinstance(thing, np.ndarray):
            waiting.append(thing.base)
            if thing.dtype == object:
                waiting += thing.ravel().tolist()
        elif isinstance(thing, memoryview):
            waiting.append(thing.obj)
        else:
            waiting += gc.get_referents(thing)
            waiting += thing if isinstance(thing, dict) else ()  # Keys that are strings are no referents.
            waiting += [getattr(thing, name) for name in _slots(type(thing)) if hasattr(thing, name)]
    return list(found.values())


def _slots(cls):
    names = [getattr(base, "__slots__", ()) for base in cls.__mro__]
    return [name for some in names for name in ([some] if isinstance(some, str) else some)]


class Remains:
    """Everything in and below an object, ready to be searched."""

    def __init__(self, root):
        things = reachable(root)
        self.arrays = [thing for thing in things if isinstance(thing, np.ndarray)]
        self.raw = [thing for thing in things if isinstance(thing, bytes | bytearray)]
        self.raw += [array.tobytes("A") for array in self.arrays if array.dtype != object]
        self.strings = [thing for thing in things if isinstance(thing, str)]
        numbers = [struct.pack("<d", thing) for thing in things if isinstance(thing, float)]
        self._words = np.unique(np.concatenate([_words(raw) for raw in (*self.raw, b"".join(numbers))]))
        with np.errstate(invalid="ignore"):
            numbers = self._words.view(np.float64)
            self._sorted = np.sort(numbers[np.isfinite(numbers)])

    def number(self, value):
        """Return whether a float64 with exactly these bits is in an array's buffer or by itself."""
        return bool(np.isin(np.float64(value).view(np.uint64), self._words))

    def about(self, value):
        """Return whether a float64 within rounding of this one is anywhere: for what was computed."""
        low, high = sorted([value * (1 - 1e-11), value * (1 + 1e-11)])
        return bool(np.searchsorted(self._sorted, high) > np.searchsorted(self._sorted, low))

    def text(self, text):
        """Return whether a string is anywhere, also as a part of another or as an element of an array."""
        if any(text in string for string in self.strings):
            return True
        return any(text.encode(code) in raw for raw in self.raw for code in ("utf-8", "utf-32-le"))


def _words(raw):
    """Return the float64s of a buffer, as their bits."""
    return np.frombuffer(raw[: len(raw) // 8 * 8], dtype=np.uint64)
