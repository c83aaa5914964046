"""Files that are there whole or not at all, and one who changes them at a time."""

from __future__ import annotations

import errno
import io
import os
import secrets
import signal
import stat
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, cast

try:
    import fcntl
except ModuleNotFoundError:  # Windows has no such locks: there, who saves last is who counts.
    fcntl = None  # type: ignore[assignment]

__all__ = ["locked", "remove_leftovers", "replacing"]

#: What says that a folder can hold no file without a name.
_NO_NAMELESS = (errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL, errno.ENOENT, errno.ENOSYS)
#: Locks that this process holds, by file: who holds each, and by which open file.
_LOCKS: dict[str, tuple[int, int]] = {}


# Writing -------------------------------------------------------------------------------------------------


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Give a new file to write to; at the end it takes the place of `path`, all at once.

    Whoever reads `path` meanwhile, or after a crash at any moment, finds the old file or the new one. The
    new one has the rights, the owner and the extended attributes of the old one as far as the system lets
    us, and the usual ones where there was none. A symbolic link stays, and the file behind it is replaced.
    Where the system has files without a name, what a killed process had written is gone with it; elsewhere
    the next who writes removes it. What is no regular file, such as ``/dev/stdout``, is written to directly.

    Parameters
    ----------
    path : path-like

    Yields
    ------
    binary file

    Raises
    ------
    OSError
        If the file cannot be written, for want of space among others; it names the file.

    Warns
    -----
    UserWarning
        If the file has other names, hard links: those keep the former contents.
    """
    former = _former(path)
    if former is not None and not stat.S_ISREG(former.st_mode):
        with open(path, "wb") as file:
            yield file
        return
    target = Path(os.path.realpath(path))
    _warn_of_links(target, former)
    remove_leftovers(target)
    part = _Part(target, former)
    try:
        yield cast(BinaryIO, part.file)
        part.take_place()
    except BaseException:
        part.abandon()
        raise
    _adopt_lock(target, part.raw.fileno())
    part.file.close()
    with _naming(target):
        _sync_folder(target.parent)


def _former(path: str | os.PathLike[str]) -> os.stat_result | None:
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return None
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
    return found


def _warn_of_links(target: Path, former: os.stat_result | None) -> None:
    if former is not None and former.st_nlink > 1:
        others = former.st_nlink - 1
        warnings.warn(
            f"{target} has {others} other name{'s' * (others > 1)} (hard links), which keep its former "
            "contents, including rows that are forgotten in it: delete them",
            UserWarning,
            stacklevel=6,
        )


class _Part:
    """What is written, until it takes its place: a file without a name where the system has such files."""

    def __init__(self, target: Path, former: os.stat_result | None) -> None:
        self.target, self.former = target, former
        self.name: Path | None = None
        # Nobody else may read rows that come into a file which only its owner may read. Of a new file the
        # system takes off what the umask says, without our asking for it: to ask is to change it.
        mode = 0o600 if former is not None else 0o666
        with _naming(target):
            handle = self._nameless(mode)
            self.is_nameless = handle is not None
            if handle is None:
                handle, self.name = _named_part(target, mode)
        self.raw = _Named(handle, "wb")
        self.raw.called = target
        self.file = io.BufferedWriter(self.raw)
        self._guard = _Cleanup(self.name)

    def _nameless(self, mode: int) -> int | None:
        if not hasattr(os, "O_TMPFILE"):
            return None
        try:
            handle = os.open(self.target.parent, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, mode)
        except OSError as error:
            if error.errno in _NO_NAMELESS and self.target.parent.is_dir():
                return None
            raise
        if not os.path.exists(f"/proc/self/fd/{handle}"):  # How it will get its name.
            os.close(handle)
            return None
        fcntl.flock(handle, fcntl.LOCK_EX)
        return handle

    def take_place(self) -> None:
        """Put the file where the former one is."""
        self.file.flush()
        with _naming(self.target):
            if self.former is not None:
                _inherit(self.raw.fileno(), self.target, self.former)
            os.fsync(self.raw.fileno())
            if self.is_nameless:
                self._link()
            if self.name is not None:
                os.replace(self.name, self.target)
        self._guard.end()

    def _link(self) -> None:
        """Give the file its name, or one beside it where there is a former one to replace."""
        folder = os.open(self.target.parent, os.O_RDONLY | os.O_DIRECTORY)
        source = f"/proc/self/fd/{self.raw.fileno()}"
        try:
            # The folder is given so that Python calls linkat, which follows the link in /proc; link does not.
            if self.former is None:
                with suppress(FileExistsError):
                    os.link(source, self.target.name, src_dir_fd=folder, dst_dir_fd=folder)
                    return
            name = _part_name(self.target)
            os.link(source, name.name, src_dir_fd=folder, dst_dir_fd=folder)
            self.name = name
        finally:
            os.close(folder)

    def abandon(self) -> None:
        """Leave nothing of it."""
        if self.name is not None:
            self.name.unlink(missing_ok=True)
        self._guard.end()
        self.raw.close()  # First: what is still in the buffer has nowhere to go.
        with suppress(OSError, ValueError):
            self.file.close()


class _Named(io.FileIO):
    """A file whose errors say which file cannot be written, whatever it is called for the moment."""

    called: Path

    def write(self, data: Any, /) -> int:
        with _naming(self.called):
            return super().write(data)


class _Cleanup:
    """Removes a half-written file if the process is asked to end, where nobody else answers that."""

    def __init__(self, name: Path | None) -> None:
        self.name = name
        self.is_set = (
            name is not None
            and threading.current_thread() is threading.main_thread()
            and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
        )
        if self.is_set:
            signal.signal(signal.SIGTERM, self._answer)

    def _answer(self, number: int, frame: object) -> None:
        assert self.name is not None
        self.name.unlink(missing_ok=True)
        self.end()
        os.kill(os.getpid(), number)

    def end(self) -> None:
        """Let the signal be what it was."""
        if self.is_set:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            self.is_set = False


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Have errors of the system name the file that somebody wanted to write."""
    try:
        yield
    except OSError as error:
        if error.errno is None:
            raise
        raise OSError(error.errno, error.strerror, str(path)) from error


def _inherit(handle: int, target: Path, former: os.stat_result) -> None:
    """Give a file the owner, the rights and the extended attributes of the one that it replaces."""
    mine = os.fstat(handle)
    if hasattr(os, "fchown") and (mine.st_uid, mine.st_gid) != (former.st_uid, former.st_gid):
        with suppress(PermissionError):  # The file of another user: ours to replace, not to give away.
            os.fchown(handle, -1, former.st_gid)
            os.fchown(handle, former.st_uid, -1)
    if hasattr(os, "fchmod"):
        os.fchmod(handle, stat.S_IMODE(former.st_mode))
    if hasattr(os, "listxattr"):
        with suppress(OSError):
            for name in os.listxattr(target):
                with suppress(OSError):  # Some are the system's own.
                    os.setxattr(handle, name, os.getxattr(target, name))


def _part_name(target: Path) -> Path:
    return target.parent / f".{target.name}.{secrets.token_hex(6)}.part"


def _named_part(target: Path, mode: int) -> tuple[int, Path]:
    """Return a new file beside the target, locked as long as it is open: nobody takes it for a leftover."""
    flags = os.O_CREAT | os.O_EXCL | os.O_RDWR | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
    while True:
        name = _part_name(target)
        handle = os.open(name, flags, mode)
        if fcntl is None:
            return handle, name
        fcntl.flock(handle, fcntl.LOCK_EX)
        if _is_still(handle, name):
            return handle, name
        os.close(handle)


def remove_leftovers(path: str | os.PathLike[str]) -> None:
    """Remove what writers of a file that were killed have left: it may hold rows that are to be forgotten.

    Parameters
    ----------
    path : path-like
        The file that they were writing.
    """
    target = Path(os.path.realpath(path))
    if fcntl is None:
        return
    prefix = f".{target.name}."
    with _naming(target):
        entries = os.listdir(target.parent)
    for entry in entries:
        if not (entry.startswith(prefix) and entry.endswith(".part")):
            continue
        with suppress(OSError):
            handle = os.open(target.parent / entry, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
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


# Locks ---------------------------------------------------------------------------------------------------


@contextmanager
def locked(path: str | os.PathLike[str]) -> Iterator[None]:
    """Keep others who ask for the same lock from changing a file, until the end.

    Two who load a model, forget a row and save it at the same time would undo one another: the row that one
    has forgotten would be back with the other. Within this lock there is only one at a time, among threads,
    processes and users of the command line. It holds while the file is replaced, and may be asked for again
    by the thread that has it.

    Parameters
    ----------
    path : path-like
        Where there is no file, nothing is locked. On Windows nothing is.

    Examples
    --------
    >>> import os, tempfile
    >>> import squaresvm
    >>> from sklearn.datasets import load_iris
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = os.path.join(folder.name, "iris.model")
    >>> squaresvm.save(squaresvm.LSSVC().fit(*load_iris(return_X_y=True)), path)
    >>> with squaresvm.locked(path):
    ...     model = squaresvm.load(path)
    ...     receipt = model.forget([3])
    ...     squaresvm.save(model, path)
    >>> receipt.remaining
    149
    >>> folder.cleanup()
    """
    target = os.path.realpath(path)
    me = threading.get_ident()
    if target in _LOCKS and _LOCKS[target][0] == me:
        yield
        return
    handle = _locked_handle(target)
    if handle is None:
        yield
        return
    _LOCKS[target] = (me, handle)
    try:
        yield
    finally:
        os.close(_LOCKS.pop(target)[1])


def _locked_handle(target: str) -> int | None:
    """Return an open file that holds the lock; None where there is none to be had."""
    while fcntl is not None:
        try:
            handle = os.open(target, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # A pipe would wait.
        except OSError:
            return None
        fcntl.flock(handle, fcntl.LOCK_EX)
        if _is_still(handle, target):
            return handle
        os.close(handle)  # It was replaced while we waited.
    return None


def _adopt_lock(target: Path, handle: int) -> None:
    """Have a lock that this thread holds go over to the file that took the place of the locked one."""
    held = _LOCKS.get(str(target))
    if held is None or held[0] != threading.get_ident():
        return
    _LOCKS[str(target)] = (held[0], os.dup(handle))  # The new file has been locked since it was made.
    os.close(held[1])


def _is_still(handle: int, path: str | os.PathLike[str]) -> bool:
    with suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(handle), os.stat(path))
    return False
