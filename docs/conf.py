"""How the documentation is built: `make docs` writes it to docs/_build/html, and needs no network."""

import sys
from pathlib import Path

import febm

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_extensions"))

project = "febm"
author = "The febm developers"
project_copyright = author
version = release = febm.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "myst_parser",
    "command_line",
    "mathml",
]
exclude_patterns = ["_build"]
default_role = "code"  # docstrings write names in single backticks
nitpicky = True

myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_typehints = "none"  # the signatures of arrays with shapes are longer than what they say
autodoc_class_signature = "mixed"
autosummary_generate = False
numpydoc_show_class_members = False
numpydoc_xref_param_type = False

html_theme = "furo"
html_title = f"febm {release}"
html_static_path = ["_static"]
html_css_files = ["febm.css"]
html_math_renderer = "mathml"
html_copy_source = False
html_show_sphinx = False
pygments_style = "friendly"


def _inherited_from_elsewhere(app, what, name, obj, skip, options):
    """Leave out what a class has from scikit-learn or Equinox: it is said there."""
    home = getattr(obj, "__module__", None) or getattr(getattr(obj, "fget", None), "__module__", "febm")
    return True if not home.startswith("febm") else None


def setup(app):
    """Called by Sphinx."""
    app.connect("autodoc-skip-member", _inherited_from_elsewhere)
