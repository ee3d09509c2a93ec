"""Formulas as MathML, which browsers typeset by themselves: pages need no script and no network."""

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.util import logging

logger = logging.getLogger(__name__)


def _inline(translator, node: nodes.math) -> None:
    translator.body.append(_typeset(node, as_block=False))
    raise nodes.SkipNode


def _block(translator, node: nodes.math_block) -> None:
    translator.body.append(f'<div class="math">{_typeset(node, as_block=True)}</div>')
    raise nodes.SkipNode


def _typeset(node: nodes.Node, *, as_block: bool) -> str:
    try:
        return tex2mathml(node.astext().strip(), as_block=as_block)
    except MathError as error:
        logger.warning("%s in %s", error, node.astext(), location=node)
        return ""


def setup(app):
    app.add_html_math_renderer("mathml", inline_renderers=(_inline, None), block_renderers=(_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
