"""Files that are there whole or not at all, and one who changes them at a time."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

try:
    import fcntl
except ModuleNotFoundError:  # Windows has no such locks: there, who saves last is who counts.
    fcntl = None  # type: ignore[assignment]

__all__ = ["locked", "replacing"]


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Give a new file to write to; at the end it takes the place of `path`, all at once.

    Whoever reads `path` meanwhile, or after a crash at any moment, finds the old file or the new one. The
    new one has the rights of the old one, or the usual ones where there was none. A symbolic link stays, and
    the file behind it is replaced. What a crash left half-written is removed by the next who writes.

    Parameters
    ----------
    path : path-like

    Yields
    ------
    binary file
    """
    target = Path(os.path.realpath(path))
    mode = _rights(target)
    _remove_leftovers(target)
    handle, name = _part_of(target)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
            os.chmod(name, mode)
            os.replace(name, target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    _sync_folder(target.parent)


@contextmanager
def locked(path: str | os.PathLike[str]) -> Iterator[None]:
    """Keep others who ask for the same lock from changing a file, until the end.

    Two requests at a time, each from the file as it was before, would undo one another: a row that one has
    forgotten would be back with the other.

    Parameters
    ----------
    path : path-like
        Where there is no file, nothing is locked.
    """
    handle = None
    while fcntl is not None and handle is None:
        try:
            handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # A pipe would wait for a writer.
        except OSError:
            break
        fcntl.flock(handle, fcntl.LOCK_EX)
        if not _is_still(handle, path):  # It was replaced while we waited.
            os.close(handle)
            handle = None
    try:
        yield
    finally:
        if handle is not None:
            os.close(handle)


def _is_still(handle: int, path: str | os.PathLike[str]) -> bool:
    with suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(handle), os.stat(path))
    return False


def _rights(target: Path) -> int:
    with suppress(FileNotFoundError):
        return stat.S_IMODE(target.stat().st_mode)
    umask = os.umask(0)
    os.umask(umask)
    return 0o666 & ~umask


def _part_of(target: Path) -> tuple[int, str]:
    """Return a new file beside the target, locked as long as it is open: nobody takes it for a leftover."""
    while True:
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=".part")
        if fcntl is None:
            return handle, name
        fcntl.flock(handle, fcntl.LOCK_EX)
        if _is_still(handle, name):
            return handle, name
        os.close(handle)


def _remove_leftovers(target: Path) -> None:
    """Remove what writers that were killed have left: it may hold rows that are to be forgotten."""
    if fcntl is None:
        return
    prefix = f".{target.name}."
    for entry in os.listdir(target.parent):
        if not (entry.startswith(prefix) and entry.endswith(".part")):
            continue
        with suppress(OSError):
            handle = os.open(target.parent / entry, os.O_RDWR | getattr(os, "O_NOFOLLOW", 0))
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                os.unlink(target.parent / entry)
            finally:
                os.close(handle)


def _sync_folder(folder: Path) -> None:
    """Have the new name on disk too, where folders can be synchronised."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
