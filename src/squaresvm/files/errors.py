"""What is wrong with a model file, or with a model that is to become one."""

from __future__ import annotations

__all__ = ["ModelFileError"]


class ModelFileError(ValueError):
    """A file that is no model file, or not one that can be trusted; the message is one line.

    Examples
    --------
    >>> import squaresvm
    >>> from squaresvm.files import ModelFileError
    >>> try:
    ...     squaresvm.load("pyproject.toml")
    ... except (ModelFileError, FileNotFoundError) as error:
    ...     print(len(str(error).splitlines()))
    1
    """
