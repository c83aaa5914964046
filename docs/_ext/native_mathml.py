"""Mathematics as MathML, which browsers draw by themselves, in a font that the pages bring along."""

from __future__ import annotations

import re
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml
from fontTools.subset import Options, Subsetter
from fontTools.ttLib import TTFont
from sphinx.errors import ExtensionError
from sphinx.util.math import get_node_equation_number

#: LaTeX takes the two digits of \\tfrac12 apart; docutils does not.
_DIGITS = re.compile(r"\\([td]?frac)\s*(\d)(\d)")


def _mathml(node: nodes.Node, *, as_block: bool) -> str:
    try:
        made = str(tex2mathml(_DIGITS.sub(r"\\\1{\2}{\3}", node.astext()), as_block=as_block))
    except SyntaxError as error:  # docutils' MathError is one.
        raise ExtensionError(f"{node.source}: {node.astext()!r} is not understood: {error}") from error
    # An opening or closing bar is a fence: without this, browsers space it as they space a relation.
    opened = made.replace('<mo class="mathopen">|</mo>', '<mo form="prefix" stretchy="false">|</mo>')
    return opened.replace("<mo>|</mo>", '<mo form="postfix" stretchy="false">|</mo>')


def _visit_math(self: Any, node: nodes.math) -> None:
    self.body.append(f'<span class="math">{_mathml(node, as_block=False)}</span>')
    raise nodes.SkipNode


def _visit_math_block(self: Any, node: nodes.math_block) -> None:
    self.body.append(self.starttag(node, "div", CLASS="math"))
    self.body.append(_mathml(node, as_block=True))
    if node["number"]:
        self.body.append(f'<span class="eqno">({get_node_equation_number(self, node)})')
        self.add_permalink_ref(node, "Link to this equation")
        self.body.append("</span>")
    self.body.append("</div>")
    raise nodes.SkipNode


#: Latin, Greek, punctuation, arrows, operators, brackets, and letters as mathematics writes them.
_RANGES = (
    (0x20, 0x17F),
    (0x370, 0x3FF),
    (0x2000, 0x21FF),
    (0x2200, 0x23FF),
    (0x27C0, 0x27FF),
    (0x2980, 0x2AFF),
    (0x1D400, 0x1D7FF),
)


def _write_font(app: Any, error: Exception | None) -> None:
    """Put STIX Two Math (SIL Open Font License) beside the pages: a bare system has no maths font."""
    if error is not None or app.builder.format != "html":
        return
    with as_file(files("ziamath") / "fonts" / "STIXTwoMath-Regular.ttf") as path:
        font = TTFont(path, lazy=True)
        options = Options(flavor="woff2", layout_features=["*"], name_IDs=["*"])
        subsetter = Subsetter(options)
        subsetter.populate(unicodes=[code for low, high in _RANGES for code in range(low, high + 1)])
        subsetter.subset(font)
        font.flavor = "woff2"
        font.save(Path(app.outdir) / "_static" / "STIXTwoMath.woff2")


def setup(app: Any) -> dict[str, bool]:
    app.add_html_math_renderer("native_mathml", (_visit_math, None), (_visit_math_block, None))
    app.connect("build-finished", _write_font)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
