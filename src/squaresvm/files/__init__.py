"""Model files: one file a model, without pickle, that never runs code.

Format, version 1
-----------------
All numbers are little-endian.

========  ==================================================================================
bytes     what
========  ==================================================================================
0-15      ``squaresvm model`` and a line feed
16-19     version of the format, unsigned
20-27     n, length of the header in bytes, unsigned
28-59     SHA-256 of all other bytes of the file, in their order
60-...    header: one JSON object of n bytes in ASCII, padded with blanks to a multiple of 64
...       arrays in the order of the header's ``arrays``, each padded with zeros to a multiple of 64
========  ==================================================================================

``arrays`` maps the name of each array to its ``dtype`` (a NumPy code of numbers, flags or strings of fixed
width), ``shape`` (two extents at most) and ``order`` (C or F). Their sizes and the header's must add up to
that of the file. The rest of the header:

=============================  =============================================================
name                           what
=============================  =============================================================
``squaresvm``                  version of the package that wrote the file
``estimator, parameters``      class and constructor parameters
``settings``                   the numbers that those stood for at `fit`
``n_features, feature_names``  columns
``sparse``                     whether the rows are ``data, indices, indptr`` or ``rows``
``labels_are_objects``         whether the labels ``y`` were Python strings
``ids``                        null: see the array ``ids``; else a list of integers and strings
``arrivals``                   the next arrival number; null where the caller gave ids
``solver, reason``             which solver, and why
``n_iter, outcome``            of the solver; the solution itself is ``beta`` or ``primal``, and ``bias``
``factor``                     null, or what the array ``factor`` is: its ``form`` and ``jitter``
``window``                     null, or the ``size`` of a `Window`; its ``times`` are an array. With a
                               ``half_life``, ``now`` and the array ``moments``: when rows came
``preparation``                null, or how the command line made rows from columns of a table
``pipeline``                   of a pipeline only: ``nystrom``, null or the header of a step of that kind. The
                               array ``pipeline`` is the description by skops of the other steps before
                               the model: see `squaresvm.files.front`
``tuned``                      parameters that ``squaresvm train --tune`` chose; missing where there are none
``history``                    [action, time, rows, rows left] of each request
``receipts``                   null, or ``key``, ``lanes`` and the sealed ``receipts`` of the model, and null
                               or ``columns``: their rounded means and deviations at fit
=============================  =============================================================

``weights`` are those of the fit; ``given``, the caller's own, is there where robust weights or a half-life
changed them.
``above, below`` are slopes of the probabilities, once those have been asked for; ``offset`` beside them is
there where class weights have moved the decision. Rows with several labels each have ``y`` of -1 and 1, a
column a label. ``Cs`` and ``certificates`` are there where targets have C of their own: C of each target,
and the certificate of each C, in rising order.

What some kinds of models have beside this, or in place of it:

- `LSSVCCV` and other searches have ``search``: ``cells`` (C and gamma), ``scores``, ``seconds`` and
  ``rounds`` of what was tried, ``exact``, whether the score is that of the exact model, and ``sampled``,
  whether it is of some of the rows only; null after a row was forgotten. ``splits`` and ``targets`` are the
  scores of each fold and of each target. ``grouped`` is there where rows left in groups.
- A model fitted from a stream has no rows, labels and ids but ``stream``: how many ``rows`` there were, the
  ``certificate`` that they gave, and where the model keeps sums the ``total`` of ``mean, scatter, target,
  response, spread`` and ``digits_lost``, by what factor subtraction has raised their relative error; beside
  them ``scale``, the largest absolute value, ``bounds`` of norms and costs of rows, and ``widest`` of their
  targets, which residuals are measured by. The arrays ``classes`` and ``counts`` are the labels and
  the rows of each.
- `OneVsOne` has the rows once, the estimator that it was given as ``of`` and with its numbers resolved as
  ``fitted``, and for each of ``pairs``, in the order of the classes, ``settings``, ``solver, reason, n_iter,
  outcome, factor, search`` as above and ``shapes`` of arrays: those of all pairs stand in one array of that
  name, one behind the other. ``robust_weights`` are the weights of a pair where they are not those of the
  rows, ``votes_above, votes_below, votes_offset`` of the vote.
- `Nystrom` has ``kernel``, the landmarks as rows, ``landmark_indices`` and ``root``, the matrix W.

``certificate`` is what the model claimed when it was saved: ``residual, gap, objective, status`` and so on.
Where the rows are nothing relies on it: ``certificate_`` is computed from rows and solution when it is asked
for, so that a loaded model proves itself, and `squaresvm.verify` compares. It may be null, or missing in
older files. What a callback or ``trace=True`` collected is not stored.

Columns may come and go without any effect on the model: one that is zero in every row held adds nothing to
an inner product or a distance between them, so K, the multipliers and the certificate stay as they are, and w
has a zero there.
"""

from __future__ import annotations

import copy
import os
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from squaresvm._version import __version__
from squaresvm.estimators.requests import Updating
from squaresvm.evidence.log import Log
from squaresvm.files import container
from squaresvm.files.container import ModelFileError
from squaresvm.files.front import Front, decode_front, encode_front
from squaresvm.files.kinds import check_kind, decode_kind, encode_kind, rows_held
from squaresvm.files.pipelines import forget, learn, remember
from squaresvm.files.record import Event, History, Record
from squaresvm.files.values import floats_of, number
from squaresvm.meta.decay import Decay, check_decay
from squaresvm.meta.window import Window
from squaresvm.models.model import Known
from squaresvm.models.state import State
from squaresvm.models.streamed import StreamedState
from squaresvm.readers import Table
from squaresvm.readers.preparation import Preparation
from squaresvm.runtime.arguments import check_positive
from squaresvm.runtime.atomic import locked
from squaresvm.typing import FloatArray, IntArray, Matrix

__all__ = ["Event", "History", "ModelFileError", "Record", "forget", "learn", "load", "save"]


def save(model: Any, path: str | os.PathLike[str], *, factor: bool = False, overwrite: bool = False) -> None:
    """Save a fitted model to one file.

    Nothing of forgotten rows is in the file: the factor is repaired first, as `flush` does. The file is
    replaced all at once: whoever reads it, or finds it after a crash, has the old one or the new one.

    Parameters
    ----------
    model : estimator, OneVsOne, Window, Nystrom, or Pipeline of scikit-learn that ends in one
        Fitted, from rows or from a stream. Its kernel must have a name or be precomputed; ids must be numbers
        or strings. The landmarks of a `Nystrom` are rows of its fit: its `forget` drops them. The steps of a
        pipeline may be the usual transformers of scikit-learn and containers of them, without functions;
        they are described by skops (extra ``pipelines``), and its ``memory`` is not saved.
    path : path-like
    factor : bool, default=False
        Whether to store the Cholesky factor of kernel models with squared loss: m^2 / 2 numbers more, and the
        first `learn` or `forget` after `load` takes O(m^2) steps in place of O(m^3). Without it the factor is
        made again when it is needed.
    overwrite : bool, default=False
        Whether to replace the file that the model came from, or was saved to, even if somebody else has
        changed it since. What others have forgotten would be back.

    Raises
    ------
    ValueError
        If the model is not fitted or holds what a file cannot, or if somebody else has changed the file since
        the model was loaded from it or saved to it: see :func:`locked`. Nothing has been written then.
    OSError
        If the file cannot be written.

    Warns
    -----
    UserWarning
        If the file has other names, hard links: those keep the former contents.

    Examples
    --------
    >>> import os, tempfile
    >>> import squaresvm
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = squaresvm.LSSVC().fit(X, y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "iris.model")
    ...     squaresvm.save(model, path)
    ...     again = squaresvm.load(path)
    >>> bool((again.decision_function(X) == model.decision_function(X)).all())
    True
    >>> again.forget([3, 17]).remaining
    148
    """
    front, model = Front.of(model)
    inner, window, times = model, None, {}
    if isinstance(model, Window):
        check_is_fitted(model)
        inner, window = model.estimator_, {"size": float(model.size)}
        times = {} if model.times_ is None else {"times": model.times_}
        if model._decay is not None and model.half_life is not None:
            window |= {"half_life": float(model.half_life), "now": model._decay.now}
            times |= {"moments": model._decay.moments}
    check_kind(inner)
    check_is_fitted(inner)
    before: dict[str, Any] = {}
    if front is not None:
        described, parts = encode_front(front)
        before = {"pipeline": described}
        times |= parts
        remember(front, model)
    record, receipts = Record.of(model), _receipts(inner)
    if record.preparation is not None:
        inner, record = _pruned(inner, record.preparation, record)
    header, arrays = encode_kind(inner, factor=factor)
    header |= {
        "squaresvm": __version__,
        "window": window,
        "preparation": None if record.preparation is None else record.preparation.to_json(),
        "history": record.history.of(rows_held(inner)).to_json(),
        "receipts": receipts,
        **before,
        **({"tuned": list(record.tuned)} if record.tuned else {}),
    }
    with locked(path):
        if not overwrite:
            _check_unchanged(path, Record.of(model).origin)
        digest = container.write(path, header, arrays | times)
        replace(Record.of(model), origin=(os.path.realpath(path), digest)).attach(model)


def _check_unchanged(path: str | os.PathLike[str], origin: tuple[str, str] | None) -> None:
    if origin is None or origin[0] != os.path.realpath(path):
        return
    if container.checksum(path) not in (None, origin[1]):
        raise ValueError(
            f"{path}: another process has changed this file since the model was loaded from it or saved to "
            "it, and rows that it forgot would come back: load it again, within squaresvm.locked, or "
            "save with overwrite=True"
        )


def _pruned(model: Updating, preparation: Preparation, record: Record) -> tuple[Updating, Record]:
    """Return model and record without levels that no row has any more."""
    if preparation.n_columns != model.n_features_in_:
        return model, replace(record, preparation=None)
    rest, sources = preparation.without_unused_levels(model._state.holding("columns that no row has").rows.X)
    if sources.size == preparation.n_columns:
        return model, record
    return with_columns(model, sources), replace(record, preparation=rest)


def load(path: str | os.PathLike[str]) -> Any:
    """Load a model from a file that `save` wrote. No code runs, whatever the file says.

    Parameters
    ----------
    path : path-like

    Returns
    -------
    estimator, OneVsOne, Window, Nystrom or Pipeline
        As it was saved: it predicts the same values in every bit, and learns and forgets.

    Raises
    ------
    ModelFileError
        If the file is damaged, cut short, of a newer version, or no model file. A ValueError.
    OSError
        If it cannot be read.
    """
    header, arrays, digest = container.read(path)
    try:
        with np.errstate(all="ignore"):  # Numbers of any size may be in a file.
            model = decode_kind(header, arrays)
        history = History.from_json(header["history"])
        origin = (os.path.realpath(path), digest)
        record = Record(history, _preparation(header, model), _tuned(header), origin)
        if record.history.held != rows_held(model):
            raise ValueError("its history does not account for its rows")
        _take_receipts(header, model)
        held = _windowed(header, arrays, model)
        front = decode_front(header, arrays)
    except KeyError as error:
        raise ModelFileError(f"{path}: does not describe a model: {error} is missing") from None
    except (ValueError, TypeError, AttributeError, IndexError, ArithmeticError, RecursionError) as error:
        raise ModelFileError(f"{path}: does not describe a model: {_one_line(error)}") from None
    record.attach(held)
    if front is None:
        return held
    remember(front, held)
    return front.around(held)


def _receipts(inner: Any) -> dict[str, Any] | None:
    """Return the sealed receipts of what has some."""
    if not hasattr(inner, "receipts_"):
        return None
    _ = inner.receipts_
    found: dict[str, Any] = inner._log.to_json()
    return found


def _take_receipts(header: dict[str, Any], model: Any) -> None:
    said = header.get("receipts")  # Not in files of earlier versions.
    if said is not None:
        if not hasattr(type(model), "receipts_"):
            raise ValueError("it has receipts, which its kind of model has no use for")
        model._log = Log.from_json(said)


def _one_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:200]


def _preparation(header: dict[str, Any], model: Any) -> Preparation | None:
    if header["preparation"] is None:
        return None
    if not isinstance(model, Updating) or not model._state.holds_rows:
        raise ValueError("it has a preparation, which its kind of model has no use for")
    preparation = Preparation.from_json(header["preparation"])
    if preparation.n_columns != model.n_features_in_ or model._state.settings.kernel is None:
        raise ValueError("its preparation makes other columns than its rows have")
    return preparation


def _tuned(header: dict[str, Any]) -> tuple[str, ...]:
    found = header.get("tuned", [])
    if not isinstance(found, list) or not set(map(str, found)) <= {"C", "gamma"}:
        raise ValueError("it does not say what was tuned")
    return tuple(map(str, found))


def _windowed(header: dict[str, Any], arrays: dict[str, np.ndarray[Any, Any]], model: Any) -> Any:
    if header["window"] is None:
        return model
    if not hasattr(model, "ids_"):
        raise ValueError("it has a window, which its kind of model has no use for")
    size = header["window"]["size"]
    window = Window(clone(model), size if isinstance(size, float) and size != int(size) else int(size))
    times = arrays.get("times")
    if times is not None and (times.shape != model.ids_.shape or np.any(np.diff(times) < 0)):
        raise ValueError("its times do not fit its rows")
    window._check_size(times is not None)
    window._replace(model, times, _decaying(window, header["window"], arrays, int(model.ids_.size)))
    return window


def _decaying(
    window: Window, described: dict[str, Any], arrays: dict[str, np.ndarray[Any, Any]], count: int
) -> Decay | None:
    """Give a window its half-life, and return when its rows came."""
    if described.get("half_life") is None:  # Not in files of earlier versions.
        return None
    window.half_life = check_positive("half_life", described["half_life"])
    check_decay(window.estimator)
    now, moments = number(described["now"], "the time of its window"), floats_of(arrays, "moments", count)
    if np.any(np.diff(moments) < 0) or moments[-1] > now:
        raise ValueError("its rows come after its last one, or out of order")
    return Decay(moments, now)


Model = TypeVar("Model", bound=Updating)


def with_columns(model: Model, sources: IntArray) -> Model:
    """Return a model whose column j is column ``sources[j]`` of this one, or zero where that is -1.

    Parameters
    ----------
    model : estimator
        Fitted; its kernel is not precomputed.
    sources : ndarray of shape (columns,)
        Every column that is left out must be zero in all rows held.

    Returns
    -------
    estimator
        A copy; its factor is made again when asked for. Fitted from a stream it only predicts.
    """
    other = copy.copy(model.flush())
    state = other._state
    solution = replace(state.solution, factor=None)
    if solution.primal is not None:
        solution = replace(solution, primal=_moved(solution.primal.T, sources).T.copy())
    if isinstance(state, State):
        rows = replace(state.rows, base=_moved(state.rows.X, sources))
        # What does not depend on columns that are zero.
        known = Known(calibration=state.known.calibration, expansion=state.known.expansion)
        other._state = replace(state, rows=rows, solution=solution, operator=None, known=known)
    else:
        assert isinstance(state, StreamedState)
        # The sums are of the columns that were: the model predicts, and no more.
        other._state = replace(state, solution=solution, sums=None, n_features=int(sources.size))
    other.n_features_in_ = int(sources.size)
    return other


def with_new_levels(model: Updating, table: Table) -> Updating:
    """Return a model with a column for each level of a table that it does not know; itself if there is none.

    Its record has the preparation that goes with it, for receipts name columns by that.
    """
    record = Record.of(model)
    if record.preparation is None or not (new := record.preparation.unknown_levels(table)):
        return model
    preparation, sources = record.preparation.with_levels(new)
    model = with_columns(model, sources)
    replace(record, preparation=preparation).attach(model)
    return model


def _moved(base: Matrix, sources: IntArray) -> Matrix:
    kept = np.flatnonzero(sources >= 0)
    if not sp.issparse(base):
        out: FloatArray = np.zeros((base.shape[0], sources.size), dtype=base.dtype)
        out[:, kept] = base[:, sources[kept]]
        return out
    place = np.full(base.shape[1], -1, dtype=base.indices.dtype)
    place[sources[kept]] = kept
    entries = base.tocoo()
    stay = place[entries.col] >= 0
    triples = (entries.data[stay], (entries.row[stay], place[entries.col[stay]]))
    return sp.csr_matrix(triples, shape=(base.shape[0], sources.size))
