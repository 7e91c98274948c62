"""A picture in SVG made part of a page: text that can be read aloud, colours of the page's theme.

A picture is drawn in the colours `INK`, `CURVES` and matplotlib's greys, which no other part of it
has; here they become variables of the page's style sheet, so that one picture is light and dark.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from pefourier.answers.plot import Look, render
from pefourier.pages.document import Markup, figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

INK = "#010203"  # of text and axes
CURVES = tuple(f"#07080{i}" for i in range(7))
GREYS = ("#999999", "#666666", "#b3b3b3")  # "0.6", "0.4", "0.7": what stands behind
VARIABLES = {INK: "--ink"} | dict.fromkeys(GREYS, "--quiet")
VARIABLES |= {c: f"--curve-{i}" for i, c in enumerate(CURVES)}
UNWANTED = {"metadata", "style"}  # a style in a picture would be one of the whole page
SVG, LINK = "http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"
COLOUR = re.compile("|".join(VARIABLES))
REFERENCE = re.compile(r"url\(#([^)]*)\)")
FONT = re.compile(r"font: ([\d.]+)px [^;]*")
FAMILY = re.compile(r"font-family: [^;]*; ?")
INLINE = Look(width=3.8, ink=INK, curves=CURVES)  # of a page, which has the colours
INLINE_WIDE = replace(INLINE, width=8.0)


def inline_svg(drawn: bytes, name: str, told: str) -> Markup:
    """A drawing of matplotlib as an element of HTML, told in words to those who do not see it.

    `name` is what the ids of this picture begin with: they must be the page's only ones.
    """
    root = ElementTree.fromstring(drawn)
    for node in root.iter():
        for junk in [one for one in node if one.tag.rpartition("}")[2] in UNWANTED]:
            node.remove(junk)
        node.tag = node.tag.removeprefix(f"{{{SVG}}}")
        node.attrib = rewritten(node.attrib, name)
        if node.text is not None and node.tag != "text" and not node.text.strip():
            node.text = None
        if node.tail is not None and not node.tail.strip():
            node.tail = None
    root.attrib = {"viewBox": root.attrib["viewBox"], "role": "img", "aria-label": told}
    return Markup(ElementTree.tostring(root, encoding="unicode"))


def rewritten(attributes: Mapping[str, str], name: str) -> dict[str, str]:
    """Attributes with ids of this picture, colours of the theme and the page's font."""
    found = {}
    for key, value in attributes.items():
        key = key.removeprefix(f"{{{SVG}}}")
        if key == "id":
            value = f"{name}-{value}"
        elif key == f"{{{LINK}}}href":
            key, value = "href", f"#{name}-{value[1:]}" if value.startswith("#") else value
        value = REFERENCE.sub(rf"url(#{name}-\1)", value)
        value = COLOUR.sub(lambda match: f"var({VARIABLES[match[0]]})", value)
        found[key] = FAMILY.sub("", FONT.sub(r"font-size: \1px", value))
    return found


def draw_inline(
    name: str,
    told: str,
    draw: Callable[..., "Figure"],
    answers: Any,
    look: Look = INLINE,
    of: str = "",
) -> Markup:
    """A figure of answers as a part of a page, and what it is of; `name` is its alone."""
    drawn = inline_svg(render("svg", draw, answers, look), name, f"{told} Of {of}." if of else told)
    return figure(drawn, told, wide=look is not INLINE)
