"""What a model says of a source, written block by block: no more than a few blocks are ever held."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias

import numpy as np
from numpy.lib import format as npy

from squaresvm.runtime.atomic import replacing

__all__ = ["check_out", "storable", "write_blocks"]

Array: TypeAlias = "np.ndarray[Any, Any]"
#: Writes one block.
Write: TypeAlias = Callable[[Array], None]

#: Bytes of the header of a .npy file, the same whatever its number of rows: that is known at the end.
_HEADER = 256


def check_out(out: str | os.PathLike[str]) -> Path:
    """Return where to write.

    Raises
    ------
    ValueError
        If it is no kind of file that can be written, or in a folder that does not exist.
    """
    path = Path(out)
    if path.suffix not in _WRITERS:
        raise ValueError(f"out must end in {' or '.join(_WRITERS)}; got {str(path)!r}")
    if path.is_dir() or not path.absolute().parent.is_dir():
        raise ValueError(f"out must be a file in a folder that exists; got {str(path)!r}")
    return path


def storable(labels: Array) -> Array:
    """Return labels as a file can hold them: strings as such, where they are Python objects."""
    if labels.dtype.hasobject and all(isinstance(label, str) for label in labels.tolist()):
        return np.array(labels.tolist())
    return labels


def write_blocks(blocks: Iterator[Array], out: Path, names: tuple[str, ...]) -> Path:
    """Write arrays one after the other to a file that takes its place when the last one is written.

    Parameters
    ----------
    blocks : iterator of ndarray of shape (rows,) or (rows, columns)
    out : Path
        As checked by `check_out`.
    names : tuple of str
        Names of the columns, where the file has names.

    Returns
    -------
    Path
        Where it was written.
    """
    given: Any = closing(blocks) if isinstance(blocks, Generator) else _nothing(blocks)
    with given, replacing(out) as file, _WRITERS[out.suffix](file, names) as write:
        for block in blocks:
            write(block)
    return out


@contextmanager
def _nothing(blocks: Iterator[Array]) -> Iterator[Iterator[Array]]:
    yield blocks


@contextmanager
def _to_npy(file: BinaryIO, names: tuple[str, ...]) -> Iterator[Write]:
    """Write a .npy file, which `numpy.load` reads or maps."""
    rows = 0
    kind: np.dtype[Any] = np.dtype(np.float64)
    columns: tuple[int, ...] = ()
    file.write(bytes(_HEADER))

    def write(block: Array) -> None:
        nonlocal rows, kind, columns
        if block.dtype.hasobject:
            raise ValueError("Python objects cannot be written to a .npy file: choose .parquet")
        rows, kind, columns = rows + block.shape[0], block.dtype, block.shape[1:]
        file.write(np.ascontiguousarray(block).view(np.uint8).data)

    yield write
    described = {"descr": npy.dtype_to_descr(kind), "fortran_order": False, "shape": (rows, *columns)}
    text = repr(described).encode("latin1")
    length = _HEADER - len(npy.magic(1, 0)) - 2
    file.seek(0)
    file.write(npy.magic(1, 0) + struct.pack("<H", length) + text.ljust(length - 1) + b"\n")


@contextmanager
def _to_parquet(file: BinaryIO, names: tuple[str, ...]) -> Iterator[Write]:
    """Write a Parquet file, a row group a block."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    writer: Any = None

    def write(block: Array) -> None:
        nonlocal writer
        columns = block[:, None] if block.ndim == 1 else block
        table = pa.table({name: pa.array(columns[:, j]) for j, name in enumerate(names)})
        if writer is None:
            writer = pq.ParquetWriter(file, table.schema)
        writer.write_table(table)

    try:
        yield write
    finally:
        if writer is not None:
            writer.close()


_WRITERS = {".npy": _to_npy, ".parquet": _to_parquet}
