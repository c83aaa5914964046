"""The folder of models: what is in it is served, and nothing else."""

from __future__ import annotations

import logging
import re
import threading
import time
from concurrent.futures import Future, wait
from pathlib import Path

from squaresvm.serve.journal import Journal
from squaresvm.serve.rows import Limits, RequestError
from squaresvm.serve.served import ServedModel

__all__ = ["JOURNAL_NAME", "Folder", "model_files"]

JOURNAL_NAME = ".squaresvm-journal.sqlite"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_LOG = logging.getLogger("squaresvm.serve")
#: Seconds between looks at the folder.
_LOOK_SECONDS = 1.0


def model_files(folder: Path) -> dict[str, Path]:
    """Return what of a folder is served, by name: files ``*.model`` whose names can stand in an address."""
    return {
        path.name.removesuffix(".model"): path
        for path in sorted(folder.glob("*.model"))
        if _NAME.fullmatch(path.name.removesuffix(".model")) and path.is_file()
    }


class Folder:
    """All models of a folder and their journal.

    An acknowledged request is in the model file, and out of the journal, after `save_seconds` or so many
    requests. `archive` is a folder for receipts that an anchor stands for.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import squaresvm
    >>> from sklearn.datasets import load_iris
    >>> from squaresvm.serve.folder import Folder
    >>> from squaresvm.serve.rows import Limits
    >>> folder = tempfile.TemporaryDirectory()
    >>> squaresvm.save(squaresvm.LSSVC().fit(*load_iris(return_X_y=True)), f"{folder.name}/iris.model")
    >>> models = Folder(Path(folder.name), Limits())
    >>> models.open_all()
    >>> models.find("iris").ready_view().rows
    150
    >>> models.close(); folder.cleanup()
    """

    def __init__(
        self,
        path: Path,
        limits: Limits,
        *,
        save_seconds: float = 10.0,
        save_requests: int = 256,
        archive: Path | None = None,
    ) -> None:
        self._path, self._limits, self._archive = path, limits, archive
        self._save_seconds, self._save_requests = save_seconds, save_requests
        self.journal = Journal(path / JOURNAL_NAME)
        self.models: dict[str, ServedModel] = {}
        self._scanning = threading.Lock()
        self._stopping = threading.Event()
        self._keeper: threading.Thread | None = None
        self._is_open = False

    def find(self, name: str) -> ServedModel:
        """Return a model; a RequestError (404) where the folder has none of the name."""
        found = self.models.get(name)
        if found is None:
            raise RequestError(404, "there is no model of this name")
        return found

    @property
    def is_ready(self) -> bool:
        """Whether every model can be asked."""
        return self._is_open and all(model.view is not None for model in list(self.models.values()))

    def open_all(self) -> None:
        """Read all models and apply what the journal has, then keep watch. Returns when all are ready."""
        wait(self.scan())
        self._is_open = True
        self._keeper = threading.Thread(target=self._keep, name="squaresvm-keeper", daemon=True)
        self._keeper.start()

    def scan(self) -> list[Future[None]]:
        """Take up new files and drop those that are gone; return what is being loaded."""
        with self._scanning:
            there = model_files(self._path)
            for name in set(self.models) - set(there):
                self.models.pop(name).close()
            loading = []
            for name in [name for name in there if name not in self.models]:
                model = ServedModel(name, there[name], self.journal, self._limits, self._archive)
                self.models[name] = model
                loading.append(model.writer.submit(model.open))
            return loading

    def _keep(self) -> None:
        while not self._stopping.wait(_LOOK_SECONDS):
            try:
                self.scan()
                done = [
                    model.writer.submit(self._look_and_save, model) for model in list(self.models.values())
                ]
                for failed in [one.exception() for one in wait(done).done]:
                    if failed is not None:
                        _LOG.error("a model cannot be looked after: %s", type(failed).__name__)
            except (OSError, RuntimeError) as error:  # The folder cannot be read, or a writer has ended.
                _LOG.warning("the folder cannot be watched: %s", type(error).__name__)

    def _look_and_save(self, model: ServedModel) -> None:
        model.look()
        age = time.monotonic() - model.unsaved_since
        if model.unsaved >= self._save_requests or (model.unsaved and age >= self._save_seconds):
            model.save()

    def close(self) -> None:
        """Put everything into the model files and close the journal."""
        self._stopping.set()
        if self._keeper is not None:
            self._keeper.join()
        models = list(self.models.values())
        wait([model.writer.submit(model.save) for model in models])
        for model in models:
            model.close()
        self.journal.close()
