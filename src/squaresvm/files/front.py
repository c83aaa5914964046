"""Steps of a scikit-learn pipeline before a model of ours: what they keep of rows, and how files hold them.

The steps are described by skops, within one array of the model's file. skops builds objects only of types
that somebody trusts; here that are the transformers of `_KEPT`, containers of them, arrays and plain values,
whatever skops itself would trust: no function and no other class can be named by a file.
"""

from __future__ import annotations

import copy
import io
import json
import zipfile
from collections.abc import Hashable, Iterable, Iterator
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline

from squaresvm.features import Nystrom
from squaresvm.files.kinds import decode_kind, encode_kind
from squaresvm.files.values import Arrays, array_of
from squaresvm.runtime.extras import install_line

__all__ = ["Front", "decode_front", "encode_front"]

#: Transformers of scikit-learn that are understood, and what each keeps of the rows of its fit.
_KEPT = {
    "Binarizer": "",
    "CountVectorizer": "the words",
    "HashingVectorizer": "",
    "KBinsDiscretizer": "the edges of bins",
    "MaxAbsScaler": "the largest absolute value of each column",
    "MinMaxScaler": "the smallest and largest value of each column",
    "MissingIndicator": "which columns lack values",
    "Normalizer": "",
    "OneHotEncoder": "the levels, also those of a single row,",
    "OrdinalEncoder": "the levels, also those of a single row,",
    "PCA": "mean and principal directions",
    "PolynomialFeatures": "",
    "PowerTransformer": "exponents, mean and deviation of each column",
    "QuantileTransformer": "quantiles of each column",
    "RobustScaler": "median and quantiles of each column",
    "SimpleImputer": "the value for cells without one, of each column,",
    "StandardScaler": "mean and deviation of each column",
    "TfidfTransformer": "in how many rows each word is",
    "TfidfVectorizer": "the words and in how many rows each is",
    "TruncatedSVD": "principal directions",
    "VarianceThreshold": "the variance of each column",
}
#: What holds transformers, or says which columns they take.
_CONTAINERS = ("ColumnTransformer", "FeatureUnion", "Pipeline", "make_column_selector")
#: Transformers that hold rows of their fit, or combinations of all of them, to compare new rows with.
_HOLD_ROWS = ("AdditiveChi2Sampler", "IterativeImputer", "KNNImputer", "KernelPCA", "Nystroem")
#: Kinds of nodes of a skops file that make values; the others make functions, methods or objects by calls.
_VALUES = (
    "CachedNode",
    "DTypeNode",
    "DictNode",
    "JsonNode",
    "ListNode",
    "NdArrayNode",
    "SetNode",
    "SliceNode",
    "TupleNode",
)
#: Types that may be named as values: those of columns and of words.
_TYPES = ("bool", "float", "int", "object", "str")
#: What skops need not doubt beside what it trusts anyway.
_TRUSTED = (
    "numpy.dtype",
    "numpy.number",
    "numpy.integer",
    "numpy.floating",
    "sklearn.compose._column_transformer.make_column_selector",
)
#: Begins the names of the arrays of a step that is ours.
_NYSTROM = "nystrom_"


class Front:
    """The steps of a fitted pipeline before its model.

    Parameters
    ----------
    pipeline : Pipeline
        Its last step does not matter.
    """

    def __init__(self, pipeline: Pipeline) -> None:
        self._name = str(pipeline.steps[-1][0])
        self._shell = copy.copy(pipeline)
        # Nothing of the model, and no folder of this machine.
        self._shell.steps = [*pipeline.steps[:-1], (self._name, "passthrough")]
        self._shell.memory = None

    @classmethod
    def of(cls, model: Any) -> tuple[Front | None, Any]:
        """Return the steps before a model, and the model at the end; None for a model by itself."""
        return (cls(model), model.steps[-1][1]) if isinstance(model, Pipeline) else (None, model)

    def around(self, model: Any) -> Pipeline:
        """Return the pipeline that ends in a model."""
        other = copy.copy(self._shell)
        other.steps = [*self._shell.steps[:-1], (self._name, model)]
        return other

    @property
    def steps(self) -> list[tuple[str, Any]]:
        """Name and transformer of each step before the model that does something."""
        return [step for step in self._shell.steps if not isinstance(step[1], str | None)]

    @property
    def feature_names(self) -> list[str] | None:
        """Columns of the data frame that the pipeline was fitted on; None where it was another array."""
        names = getattr(self.steps[0][1], "feature_names_in_", None) if self.steps else None
        return None if names is None else [str(name) for name in names]

    def transform(self, X: Any) -> Any:
        """Return what reaches the model of rows; a ValueError where a step refuses them."""
        for _, step in self.steps:
            X = step.transform(X)
        return X

    def output_names(self) -> list[str]:
        """Return the names of the columns that reach the model; none where a step does not tell."""
        try:
            return [str(name) for name in self.around("passthrough").get_feature_names_out()]
        except (AttributeError, ValueError):
            return []

    def leaves(self) -> Iterator[tuple[str, Any]]:
        """Yield path and transformer of all that transforms, inside of containers too."""
        for name, step in self.steps:
            yield from _leaves(name, step)

    def moved(self, X: Any) -> tuple[int, dict[str, list[float]]]:
        """Return how many columns a StandardScaler before the model scales, and how far each would move now.

        By rows X as they reach the model, mean and deviation, in deviations of its fit and in whole per cent.
        """
        step: Any = self.steps[-1][1] if self.steps else None
        if type(step).__name__ != "StandardScaler" or step.scale_ is None or not isinstance(X, np.ndarray):
            return 0, {}
        means = X.mean(axis=0) - (0.0 if step.with_mean else step.mean_ / step.scale_)
        deviations = X.std(axis=0) - np.sqrt(step.var_) / step.scale_
        names = self.output_names() or [str(column) for column in range(X.shape[1])]
        pairs = np.round(np.column_stack([means, deviations]).astype(np.float64), 2) + 0.0
        return len(names), dict(zip(names, pairs.tolist(), strict=True))

    def kept_of_rows(self) -> list[str]:
        """Return, in words, what each step keeps of rows of its fit, also of those that left the model."""
        found = []
        for path, step in self.leaves():
            what = "gamma and the choice of landmarks" if isinstance(step, Nystrom) else _kept_by(step)
            if what:
                found.append(
                    f"step {path!r} ({type(step).__name__}): {what} of all rows of its fit, until it is "
                    "fitted again"
                )
        return found

    def check_forgets(self, model: Any, ids: Iterable[Hashable], but: Any = None) -> None:
        """Raise a ValueError where a step holds rows as they are, and so what is to be forgotten.

        `but` is a step that drops its landmarks.
        """
        for path, step in self.leaves():
            if step is but and isinstance(step, Nystrom):
                continue
            if type(step).__name__ in _HOLD_ROWS:
                raise ValueError(
                    f"step {path!r} ({type(step).__name__}) holds training rows and cannot forget them: "
                    "nothing was forgotten. Fit the pipeline anew without these rows"
                )
            if isinstance(step, Nystrom):
                _check_landmarks(path, step, model, ids)


def _check_landmarks(path: str, step: Nystrom, model: Any, ids: Iterable[Hashable]) -> None:
    rows = getattr(getattr(model, "_state", None), "rows", None)
    if rows is None or rows.ids.arrivals is None:
        raise ValueError(
            f"step {path!r} (Nystrom) holds rows as landmarks, and with ids of your own it is unknown "
            "which: nothing was forgotten. Fit the pipeline anew without these rows"
        )
    landmarks = set(step.landmark_indices_.tolist())
    found = next((name for name in ids if name in landmarks), None)
    if found is not None:
        raise ValueError(
            f"row {found!r} is a landmark of step {path!r} (Nystrom), from which all features are computed: "
            "nothing was forgotten. Pass the rows that the model holds as rows=, or fit the pipeline anew "
            "without it"
        )


def _leaves(path: str, step: Any) -> Iterator[tuple[str, Any]]:
    inside: list[tuple[str, Any]] = []
    if isinstance(step, Pipeline):
        inside = list(step.steps)
    elif type(step).__name__ == "FeatureUnion":
        inside = list(step.transformer_list)
    elif type(step).__name__ == "ColumnTransformer":
        inside = [(name, part) for name, part, _ in getattr(step, "transformers_", step.transformers)]
    else:
        yield path, step
    for name, part in inside:
        if not isinstance(part, str) and part is not None:
            yield from _leaves(f"{path}.{name}", part)


def _kept_by(step: Any) -> str:
    """Return what a transformer keeps of the rows of its fit; what we do not know may be anything."""
    if _is_plain_function(step):
        return ""
    return _KEPT.get(_known_name(step), "whatever it took")


def _known_name(step: Any) -> str:
    return type(step).__name__ if type(step).__module__.startswith("sklearn.") else ""


def _is_plain_function(step: Any) -> bool:
    """Return whether a step passes columns on: scikit-learn puts it where 'passthrough' stood."""
    return _known_name(step) == "FunctionTransformer" and step.func is None and step.inverse_func is None


# Files ----------------------------------------------------------------------------------------------------


def encode_front(front: Front) -> tuple[dict[str, Any], Arrays]:
    """Return header and arrays of the steps before a model; a ValueError names what cannot be saved."""
    features = [(name, step) for name, step in front.steps if isinstance(step, Nystrom)]
    if len(features) > 1:
        raise ValueError("a pipeline with two steps of Nystrom features cannot be saved")
    shell = front.around("passthrough")
    described: dict[str, Any] = {"nystrom": None}
    arrays: Arrays = {}
    for name, step in features:
        header, parts = encode_kind(step, factor=False)
        described["nystrom"] = {**header, "step": name}
        arrays = {f"{_NYSTROM}{part}": array for part, array in parts.items()}
        shell.steps = [(each, "passthrough" if each == name else other) for each, other in shell.steps]
    others = Front(shell)
    for path, step in others.leaves():
        _check_known(path, step)
    raw = _skops().dumps(shell)
    if _fault(raw) is not None:
        faults = ((path, _fault(_skops().dumps(step))) for path, step in others.leaves())
        path, fault = next((found for found in faults if found[1]), ("", _fault(raw)))
        what = f"step {path!r} of the pipeline" if path else "the pipeline"
        raise ValueError(f"{what} cannot be saved: it holds {fault}, which a model file cannot")
    return described, {**arrays, "pipeline": np.frombuffer(raw, dtype=np.uint8)}


def _check_known(path: str, step: Any) -> None:
    if _is_plain_function(step) or _known_name(step) in _KEPT:
        return
    name = type(step).__name__
    if name == "FunctionTransformer":
        why = "it calls a function, and a model file holds no code"
    else:
        why = f"a model file can hold these transformers: {', '.join(_KEPT)}"
    raise ValueError(f"step {path!r} of the pipeline, a {name}, cannot be saved: {why}")


def decode_front(header: dict[str, Any], arrays: Arrays) -> Front | None:
    """Return the steps before the model that a file describes; None where there are none."""
    described = header.get("pipeline")  # Not in files of earlier versions.
    if described is None:
        return None
    raw = array_of(arrays, "pipeline", "u", (None,)).tobytes()
    fault = _fault(raw)
    if fault is not None:
        raise ValueError(f"its pipeline holds {fault}, which no file of ours does")
    skops = _skops()
    try:
        pipeline = skops.loads(raw, trusted=list(_TRUSTED))
    except Exception as error:  # skops raises whatever a wrong description leads to.
        raise ValueError(f"its pipeline cannot be read: {error}") from None
    if type(pipeline) is not Pipeline:
        raise ValueError("its pipeline is none")
    for path, step in Front(pipeline).leaves():
        _check_known(path, step)
    features = described["nystrom"]
    if features is not None:
        parts = {
            name.removeprefix(_NYSTROM): part for name, part in arrays.items() if name.startswith(_NYSTROM)
        }
        if features["estimator"] != "Nystrom":
            raise ValueError("a step of its pipeline does not return features")
        step = decode_kind(features, parts)
        pipeline.steps = [
            (name, step if name == features["step"] else other) for name, other in pipeline.steps
        ]
    return Front(pipeline)


def _fault(raw: bytes) -> str | None:
    """Return what a description by skops holds that is no transformer of ours, container or plain value."""
    try:
        with zipfile.ZipFile(io.BytesIO(raw)) as archive:
            # What is stored as it is cannot grow in memory.
            if any(entry.compress_type != zipfile.ZIP_STORED for entry in archive.infolist()):
                return "compressed parts"
            schema = json.loads(archive.read("schema.json"))
    except (zipfile.BadZipFile, KeyError, ValueError, RecursionError):
        return "what is no description"
    return next((fault for node in _nodes(schema) if (fault := _node_fault(node))), None)


def _nodes(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        if "__loader__" in value:
            yield value
        value = list(value.values())
    if isinstance(value, list):
        for each in value:
            yield from _nodes(each)


def _node_fault(node: dict[str, Any]) -> str | None:
    kind, module, name = (str(node.get(part)) for part in ("__loader__", "__module__", "__class__"))
    ours = module.startswith("sklearn.") and (
        name in _KEPT or name in _CONTAINERS or name == "FunctionTransformer"
    )
    plain = module == "builtins" and name in _TYPES
    if module == "numpy":
        type_ = getattr(np, name, None)
        plain = isinstance(type_, type) and issubclass(type_, np.number | np.bool_ | np.str_)
    if kind in _VALUES or (kind == "ObjectNode" and ours) or (kind == "TypeNode" and plain):
        return None
    return f"{module}.{name}"[:80]


def _skops() -> Any:
    try:
        import skops.io
    except ImportError as error:
        raise ValueError(
            f"a pipeline is saved and loaded by skops, which is not installed: {install_line('pipelines')}"
        ) from error
    return skops.io
