"""Mathematics as MathML, which browsers show by themselves: no script, no font, no network."""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.errors import ExtensionError
from sphinx.util.math import get_node_equation_number

#: LaTeX takes the two digits of \\tfrac12 apart; docutils does not.
_DIGITS = re.compile(r"\\([td]?frac)\s*(\d)(\d)")


def _mathml(node: nodes.Node, *, as_block: bool) -> str:
    try:
        return str(tex2mathml(_DIGITS.sub(r"\\\1{\2}{\3}", node.astext()), as_block=as_block))
    except SyntaxError as error:  # docutils' MathError is one.
        raise ExtensionError(f"{node.source}: {node.astext()!r} is not understood: {error}") from error


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


def setup(app: Any) -> dict[str, bool]:
    app.add_html_math_renderer("native_mathml", (_visit_math, None), (_visit_math_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
