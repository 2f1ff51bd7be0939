# SPDX-License-Identifier: MIT
"""Configuration of Sphinx, for `make docs`."""

import sys
from pathlib import Path

import gnograd

try:
    import tomllib
except ImportError:  # Python 3.10
    import tomli as tomllib

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "extensions"))

with open(HERE.parent / "pyproject.toml", "rb") as file:
    metadata = tomllib.load(file)["project"]

project = "gnograd"
repository_url = metadata.get("urls", {}).get("Source", "")
author = "gnograd developers"
copyright = "gnograd developers"
version = release = gnograd.__version__

extensions = [
    "sphinx.ext.autodoc",
    "numpydoc",
    "myst_parser",
    "sphinx_design",
    "sphinx_copybutton",
    "mathml",
    "pictures",
    "bench_report",
    "reference",
    "links",
]
exclude_patterns = ["extensions", "figures", "benchmarks/generated", "ford.md"]
# Pages of files that a source tree may lack
for page, source in {"security": "SECURITY.md", "citing": "CITATION.cff"}.items():
    if not (HERE.parent / source).exists():
        exclude_patterns.append(f"project/{page}.md")
nitpicky = True
smartquotes = False

# A name in single backquotes in a docstring may be an argument or something of the package.
default_role = "name"
add_module_names = False
python_use_unqualified_type_names = True
autodoc_typehints = "none"
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False

myst_enable_extensions = ["attrs_block", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
copybutton_exclude = ".linenos, .gp, .go"

html_theme = "pydata_sphinx_theme"
html_title = f"gnograd {release}"
html_static_path = ["_static"]
html_css_files = ["gnograd.css"]
html_favicon = "_static/logo.svg"
html_copy_source = False
html_show_sourcelink = False
html_theme_options = {
    "logo": {"image_light": "_static/logo.svg", "image_dark": "_static/logo.svg",
             "text": "gnograd", "alt_text": "gnograd"},
    "header_links_before_dropdown": 7,
    "navbar_align": "left",
    "navbar_end": ["theme-switcher"],
    "navigation_with_keys": False,
    "show_nav_level": 1,
    "navigation_depth": 3,
    "collapse_navigation": True,
    "show_toc_level": 2,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": ["sphinx-version"],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}  # fmt: skip
html_sidebars = {"index": [], "gallery/index": []}
