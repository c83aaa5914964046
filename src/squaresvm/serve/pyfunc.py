"""Models for MLflow, as its ``python_function``: MLflow keeps our own file, which runs no code when loaded.

To put a model file into MLflow, name this module as the loader::

    mlflow.pyfunc.save_model("wine-mlflow", loader_module="squaresvm.serve.pyfunc", data_path="wine.model")
    mlflow.pyfunc.load_model("wine-mlflow").predict(frame)
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np

import squaresvm
from squaresvm.readers.preparation import table_of
from squaresvm.serve.rows import RequestError, rows_for
from squaresvm.serve.view import View

__all__ = ["PyFuncModel"]


class PyFuncModel:
    """A model whose `predict` takes what MLflow hands over.

    Parameters
    ----------
    view : View

    Examples
    --------
    >>> import tempfile
    >>> import squaresvm
    >>> from sklearn.datasets import load_iris
    >>> from squaresvm.serve.pyfunc import _load_pyfunc
    >>> X, y = load_iris(return_X_y=True)
    >>> model = squaresvm.LSSVC().fit(X, y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     squaresvm.save(model, f"{folder}/iris.model")
    ...     wrapped = _load_pyfunc(f"{folder}/iris.model")
    >>> bool((wrapped.predict(X) == model.predict(X)).all())
    True
    """

    def __init__(self, view: View) -> None:
        self._view = view

    def predict(self, data: Any, params: dict[str, Any] | None = None) -> np.ndarray[Any, Any]:
        """Return labels, values or, with ``params={"probabilities": True}``, probabilities.

        Parameters
        ----------
        data : data frame or array of shape (rows, columns)
            A frame has the columns of the table that the model was trained on, in any order.
        params : dict, optional

        Raises
        ------
        ValueError
            If the columns are not those of the model, or hold what they cannot.
        """
        try:
            X = self._rows(data)
        except RequestError as error:
            raise ValueError(error.message) from None
        if params is not None and params.get("probabilities"):
            if not self._view.has_probabilities:
                raise ValueError("this model has no probabilities")
            return np.asarray(self._view.estimator.predict_proba(X))
        return self._view.answer(X).labels

    def _rows(self, data: Any) -> Any:
        view = self._view
        if view.front is not None:
            return view.transformed(data)
        if view.preparation is not None and hasattr(data, "columns"):
            return view.preparation.rows(table_of(data))
        return rows_for(np.asarray(data, dtype=np.float64), view.preparation, view.width)


def _load_pyfunc(path: str | os.PathLike[str]) -> PyFuncModel:
    """Return the model of a file; MLflow calls this."""
    return PyFuncModel(View.of(squaresvm.load(path), 0))
