"""What a file holds beside the model: how rows became columns, and what became of the model since.

A history is in counts and times: never an id, and no line for rows that are all gone.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

import numpy as np

from squaresvm.readers.preparation import Preparation
from squaresvm.typing import IntArray

__all__ = ["Event", "History", "Record"]

_BRINGS = ("train", "learn", "save")
_ACTIONS = (*_BRINGS, "forget")


@dataclass(frozen=True)
class Event:
    """One request.

    Parameters
    ----------
    action : {'train', 'learn', 'save', 'forget'}
        'save' stands for all that happened in Python before the model was first saved.
    time : str
        Of the request, UTC, in seconds.
    rows : int
        Rows that came or went.
    left : int
        Of the rows that came, those still held; 0 for a request to forget.
    """

    action: str
    time: str
    rows: int
    left: int


@dataclass(frozen=True)
class History:
    """Requests in the order in which they came.

    Rows are held in the order of their arrival, so that counts are enough to tell which request brought
    which rows. When the last row of a request is forgotten, its line is too.

    Parameters
    ----------
    events : tuple of Event

    Examples
    --------
    >>> import numpy as np
    >>> from squaresvm.files import History
    >>> history = History().brought("train", 10).brought("learn", 1).forgot(np.array([10]))
    >>> [(event.action, event.rows) for event in history.events]
    [('train', 10), ('forget', 1)]
    """

    events: tuple[Event, ...] = ()

    @property
    def held(self) -> int:
        """Rows that are held, by this account."""
        return sum(event.left for event in self.events)

    def brought(self, action: str, count: int) -> History:
        """Return the history with a request that brought rows."""
        return History((*self.events, Event(action, _now(), count, count)))

    def forgot(self, positions: IntArray) -> History:
        """Return the history with a request that removed the rows at `positions` among those held."""
        ends = np.cumsum([event.left for event in self.events])
        gone = np.bincount(np.searchsorted(ends, positions, side="right"), minlength=len(self.events))
        rest = [
            replace(event, left=event.left - int(lost)) for event, lost in zip(self.events, gone, strict=True)
        ]
        kept = [event for event in rest if event.left or event.action == "forget"]
        return History((*kept, Event("forget", _now(), int(positions.size), 0)))

    def by_day(self) -> History:
        """Return the history with what was learned, and what was forgotten, on one day in one line."""
        lines: list[Event] = []
        for event in self.events:
            # Only with the last of its kind: rows are held in the order of their arrival.
            leaves = event.action == "forget"
            at = max((i for i, line in enumerate(lines) if (line.action == "forget") == leaves), default=None)
            if at is not None and _one_day(lines[at], event):
                line = lines.pop(at)
                event = replace(event, rows=line.rows + event.rows, left=line.left + event.left)
            lines.append(event)
        return History(tuple(lines))

    def of(self, count: int) -> History:
        """Return a history that accounts for `count` rows: this one, or one line where it does not."""
        return self if self.held == count else History().brought("save", count)

    def to_json(self) -> list[list[Any]]:
        """Return the history as JSON."""
        return [[event.action, event.time, event.rows, event.left] for event in self.events]

    @classmethod
    def from_json(cls, lines: Any) -> History:
        """Return the history from JSON; a ValueError where it is none."""
        if not isinstance(lines, list):
            raise ValueError("its history is not a list")
        return cls(tuple(_event(line) for line in lines))


@dataclass(frozen=True)
class Record:
    """What a file holds beside the model.

    Parameters
    ----------
    history : History
    preparation : Preparation or None
    tuned : tuple of str
        Parameters that scores on all rows of the training have chosen, and that stay until it is repeated.
    origin : tuple of str or None
        The file that the model was last loaded from or saved to, and its checksum then.
    """

    history: History = field(default_factory=History)
    preparation: Preparation | None = None
    tuned: tuple[str, ...] = ()
    origin: tuple[str, str] | None = None

    @classmethod
    def of(cls, model: Any) -> Record:
        """Return what came with a model when it was loaded, or was attached to it."""
        found: Record = model._record or cls()
        return found

    def attach(self, model: Any) -> None:
        """Have this saved with the model; where the model comes from stays what it was, unless told."""
        model._record = self if self.origin is not None else replace(self, origin=Record.of(model).origin)

    def kept_of_rows(self) -> list[str]:
        """Return, in words, what is kept of rows of the training, also of those that have left."""
        of_columns = [] if self.preparation is None else self.preparation.kept_of_rows()
        if not self.tuned:
            return of_columns
        chosen = f"{' and '.join(self.tuned)} {'was' if len(self.tuned) == 1 else 'were'} chosen by scores"
        return [*of_columns, f"{chosen} on all rows of the training, and stay until it is repeated"]

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without the name of a file, which means nothing elsewhere."""
        return {**self.__dict__, "origin": None}


def _one_day(line: Event, event: Event) -> bool:
    same = line.action == event.action and line.time[:10] == event.time[:10]
    return same and event.action in ("learn", "forget")


def _event(line: Any) -> Event:
    if not isinstance(line, list) or len(line) != 4:
        raise ValueError("a line of its history is incomplete")
    action, time, rows, left = line
    counts = type(rows) is int and type(left) is int and 0 <= left <= rows
    if action not in _ACTIONS or not isinstance(time, str) or not counts:
        raise ValueError("a line of its history makes no sense")
    datetime.fromisoformat(time)
    return Event(action, time, rows, left)


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S+00:00")
