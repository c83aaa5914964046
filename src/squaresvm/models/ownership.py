"""Which state of a model may use the buffers that requests change in place.

A model that learns and forgets is a line of frozen states, and for the sake of speed they share buffers: the
kernel store, the room of its factor, the store of an active set, large rows that are struck out. The rule is
that **no state sees another's changes**, and this is why it holds:

1. Buffers are read and written under one lock, `REQUESTS`, and only by a state that is *live*: its claim, or
   an ancestor of its claim, is the owner of the line.
2. Before a request is committed it writes only where the owner does not read: slots that the owner leaves
   empty, correction columns behind those that the owner counts, and the factor's room, whose tenant is
   changed first, so that the owner's factor knows that it is gone and is made anew from K. A step of its
   inversion changes how the room says what it stands for, and where that is said, never what: the owner's
   factor holds, given up or not. Interrupted, the room says that it holds nothing.
3. `commit` makes the new state the owner, and only then writes zeros over what the owners before it had.
   From that moment every other state of the line, older ones, trials that were given up and whoever kept
   them, is not live any more.
4. A state that is not live makes buffers of its own from its rows. Where these were struck out, or K was
   given and never computed, it raises :class:`SupersededError`.

A request that fails has committed nothing, so the owner is as it was.
"""

from __future__ import annotations

from squaresvm.runtime.resources import fork_safe_lock

__all__ = ["REQUESTS", "Claim", "SupersededError"]

#: Whoever reads or changes the buffers that states of one model share holds this lock. Few models are changed
#: by several threads at once, so one for all of them is enough; predictions never take it.
REQUESTS = fork_safe_lock()


class SupersededError(RuntimeError):
    """A state that a later request has replaced was asked for something that needs rows which have left."""


class _Line:
    """The states that share buffers; one of them owns these."""

    def __init__(self, owner: Claim) -> None:
        self.owner = owner


class Claim:
    """One state's claim to the buffers of its line.

    Parameters
    ----------
    before : Claim, optional
        That of the state that this one was made from; None: a line of its own, which it owns.

    Examples
    --------
    >>> from squaresvm.models.ownership import Claim
    >>> old = Claim()
    >>> new = Claim(old)
    >>> old.is_live, new.is_live  # A request is under way.
    (True, True)
    >>> new.commit()
    >>> old.is_live, new.is_live
    (False, True)
    """

    __slots__ = ("_before", "_line")

    def __init__(self, before: Claim | None = None) -> None:
        self._before = before
        self._line: _Line = _Line(self) if before is None else before._line

    @property
    def is_live(self) -> bool:
        """Whether the buffers are this state's to use."""
        claim: Claim | None = self
        while claim is not None:
            if claim is self._line.owner:
                return True
            claim = claim._before
        return False

    def commit(self) -> None:
        """Become the owner of the line."""
        if not self.is_live:
            raise SupersededError("another request was committed meanwhile")
        self._line.owner = self
        self._before = None
