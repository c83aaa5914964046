"""Sphinx configuration. Nothing is fetched from the network, neither at build time nor by the pages."""

from __future__ import annotations

import inspect
import os
import sys
from pathlib import Path

# The gallery runs each example in this process: one thread a BLAS call makes the build steady.
for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")
sys.path.insert(0, str(Path(__file__).parent / "_ext"))

import squaresvm  # noqa: E402
from squaresvm import __version__  # noqa: E402

project = "squaresvm"
copyright = "squaresvm developers, BSD-3-Clause"
version = release = __version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "native_mathml",
]
exclude_patterns = ["_build"]
templates_path = ["_templates"]
default_role = "literal"
nitpicky = True
html_math_renderer = "native_mathml"
math_eqref_format = "({number})"

autodoc_typehints = "none"
toc_object_entries_show_parents = "hide"
autosummary_generate = True
numpydoc_show_class_members = False
# Fitted attributes end in "_" and are told in the page of their class: they have no pages of their own.
nitpick_ignore_regex = [("py:obj", r"\w+_")]


def _own_methods(cls: type) -> list[str]:
    """Return the public methods that this package wrote: scikit-learn's are not told again class by class."""
    members = [(name, getattr(cls, name)) for name in dir(cls) if not name.startswith("_")]
    return [
        name
        for name, member in members
        if inspect.isfunction(member) and member.__module__.startswith("squaresvm")
    ]


autosummary_context = {
    "own_methods": {
        name: _own_methods(member) for name, member in vars(squaresvm).items() if inspect.isclass(member)
    }
}

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "auto_examples",
    "filename_pattern": r"/plot_",
    "image_scrapers": ("matplotlib",),
    "within_subsection_order": "FileNameSortKey",
    "image_srcset": ["2x"],
    "abort_on_example_error": False,
    "only_warn_on_example_error": False,
    "doc_module": ("squaresvm",),
    "backreferences_dir": None,
    "download_all_examples": False,
    "show_signature": False,
    "show_memory": False,
    "write_computation_times": False,
    "plot_gallery": True,
}

html_theme = "pydata_sphinx_theme"
html_title = "squaresvm"
html_static_path = ["_static"]
html_css_files = ["squaresvm.css"]
html_show_sourcelink = False
html_copy_source = False
html_sidebars = {"index": [], "getting_started": [], "papers_tables": []}
html_theme_options = {
    "show_prev_next": True,
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "header_links_before_dropdown": 6,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
