"""What a client is told when a request cannot be carried out."""

from __future__ import annotations

__all__ = ["RequestError", "first_line"]

#: Characters of a message at most: a request may be quoted in it, whatever its size.
_LONGEST = 400


class RequestError(Exception):
    """A request that is answered with an error, in one line.

    Parameters
    ----------
    status : int
        HTTP status.
    message : str
    retry_after : int, optional
        Seconds after which it is worth trying again.
    """

    def __init__(self, status: int, message: str, retry_after: int | None = None) -> None:
        super().__init__(message)
        self.status, self.message, self.retry_after = status, message, retry_after


def first_line(error: BaseException) -> str:
    """Return what an error says, in one line of bounded length; a KeyError without its quotes."""
    text = str(error.args[0]) if isinstance(error, KeyError) and error.args else str(error)
    line = " ".join(text.split()) or type(error).__name__
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]} ..."
