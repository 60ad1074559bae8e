"""SVG files of a run folder, made harmless and carried in the page itself."""

from __future__ import annotations

import base64
import re
from xml.etree import ElementTree

from maskwright.errors import InputError
from maskwright.report.blocks import Picture
from maskwright.report.records import Reader

MOST_PICTURES, MOST_BYTES = 12, 2_000_000
_SVG, _LINK = "http://www.w3.org/2000/svg", "{http://www.w3.org/1999/xlink}href"
# What a drawing needs; neither script, nor foreign content, nor anything that loads or moves.
_ELEMENTS = re.compile(
    "svg|g|defs|title|desc|path|rect|circle|ellipse|line|polyline|polygon|text|tspan|textPath|image|use|clipPath|mask|"
    "symbol|linearGradient|radialGradient|stop|pattern|marker|style"
)
_INSIDE = re.compile(r"#|data:image/(png|jpeg);base64,")
_OUTSIDE = re.compile(r"url\(\s*['\"]?(?!\s*['\"]?#)|@import|javascript:|\\", re.IGNORECASE)


def pictures(reader: Reader) -> list[Picture]:
    """The `.svg` files right in the folder; those that are too large, too many or no SVG are noted and left out."""
    found = sorted(reader.folder.glob("*.svg"))
    shown = []
    for path in found[:MOST_PICTURES]:
        try:
            if path.stat().st_size > MOST_BYTES:
                raise InputError(f"is larger than {MOST_BYTES // 1_000_000} MB")
            shown.append(Picture(f"{reader.name}: {path.stem}", _as_uri(clean_svg(path.read_bytes()))))
        except (InputError, OSError) as error:
            reader.note(f"{path.name} is not shown: {error}.")
    if len(found) > MOST_PICTURES:
        reader.note(f"{len(found) - MOST_PICTURES} of {len(found)} pictures are not shown.")
    return shown


def clean_svg(content: bytes) -> bytes:
    """The drawing alone: no script, handler, animation, foreign content or address outside the file.

    Raises:
        InputError: it is no SVG, or declares entities.

    Example:
        >>> clean_svg(b'<svg xmlns="http://www.w3.org/2000/svg" onload="f()"><script>f()</script><path d="M0"/></svg>')
        b'<svg xmlns="http://www.w3.org/2000/svg"><path d="M0" /></svg>'
    """
    if b"<!ENTITY" in content:
        raise InputError("it declares entities")
    try:
        root = ElementTree.fromstring(content)
    except (ElementTree.ParseError, ValueError, LookupError) as error:
        raise InputError(f"it is no SVG ({error})") from error
    if root.tag != f"{{{_SVG}}}svg":
        raise InputError("it is no SVG")
    _clean(root)
    ElementTree.register_namespace("", _SVG)
    ElementTree.register_namespace("xlink", "http://www.w3.org/1999/xlink")
    return ElementTree.tostring(root)


def _clean(element: ElementTree.Element) -> None:
    for name, value in list(element.attrib.items()):
        is_link = name in {"href", _LINK}
        foreign = name.startswith("{") and name != _LINK
        if name.lower().startswith("on") or foreign or _OUTSIDE.search(value) or (is_link and not _INSIDE.match(value)):
            del element.attrib[name]
    for child in list(element):
        tag = child.tag.removeprefix(f"{{{_SVG}}}")  # comments are gone: the parser leaves them out
        known = _ELEMENTS.fullmatch(tag)
        outside = tag == "style" and _OUTSIDE.search("".join(child.itertext()))
        if known and not outside:
            _clean(child)
        else:
            element.remove(child)


def _as_uri(svg: bytes) -> str:
    """As the source of an <img>, in which browsers run no script and load nothing, whatever the file holds."""
    return "data:image/svg+xml;base64," + base64.b64encode(svg).decode("ascii")
