"""Where the package came from, and where its documentation is."""

from __future__ import annotations

import pytest
from sklearn.pipeline import make_pipeline

from squaresvm import LSSVC, LSSVCCV, LSSVR, Nystrom, OneVsOne, Window
from squaresvm.runtime import extras


class Metadata:
    """Of a distribution that somebody has installed from a folder."""

    def __init__(self, address, folder):
        self.metadata = self
        self._address, self._folder = address, folder

    def get_all(self, name):
        return [f"Documentation, {self._address}"] if self._address and name == "Project-URL" else None

    def read_text(self, name):
        return f'{{"url": "{self._folder.as_uri()}"}}'


@pytest.fixture
def installed(monkeypatch, tmp_path):
    def install(address):
        monkeypatch.setattr(extras, "distribution", lambda name: Metadata(address, tmp_path))
        extras.documentation.cache_clear()
        return tmp_path

    yield install
    extras.documentation.cache_clear()


@pytest.mark.parametrize(
    "model", [LSSVC(), LSSVR(), LSSVCCV(), Nystrom(), OneVsOne(LSSVC()), Window(LSSVC(), 9)]
)
def test_the_html_of_an_estimator_links_to_its_page(installed, model):
    installed("https://example.org/squaresvm/")
    page = f"https://example.org/squaresvm/generated/squaresvm.{type(model).__name__}.html"
    assert page in model._repr_html_()
    assert page in make_pipeline(model)._repr_html_()


def test_documentation_that_was_built_in_the_checkout_is_linked(installed):
    html = installed("") / "docs" / "_build" / "html"
    assert LSSVC()._get_doc_link() == ""
    assert "generated" not in LSSVC()._repr_html_()
    html.mkdir(parents=True)
    (html / "index.html").touch()
    extras.documentation.cache_clear()
    assert f"{html.as_uri()}/generated/squaresvm.LSSVC.html" in LSSVC()._repr_html_()
