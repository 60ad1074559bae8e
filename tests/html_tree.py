"""An HTML page as a tree, by the standard library's parser."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser

_VOID = {"meta", "img", "br", "hr", "input", "link"}


@dataclass
class Node:
    tag: str
    attributes: dict[str, str]
    children: list[Node | str] = field(default_factory=list)

    def all(self, tag: str = "", of_class: str = "") -> Iterator[Node]:
        """Every element below this one, with that tag and class."""
        for child in self.children:
            if isinstance(child, Node):
                if tag in ("", child.tag) and (not of_class or of_class in child.attributes.get("class", "").split()):
                    yield child
                yield from child.all(tag, of_class)

    def one(self, tag: str = "", of_class: str = "") -> Node:
        (found,) = self.all(tag, of_class)
        return found

    @property
    def text(self) -> str:
        return "".join(child if isinstance(child, str) else child.text for child in self.children)

    def rows(self) -> list[list[str | float]]:
        """The body of the only table below: exact values where cells hold numbers, else their text."""
        cells = [[cell for cell in row.all() if cell.tag in ("td", "th")] for row in self.one("tbody").all("tr")]
        return [
            [float(cell.attributes["data-value"]) if "data-value" in cell.attributes else cell.text for cell in row]
            for row in cells
        ]


class _Builder(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open = [Node("", {})]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = [name for name, _ in attrs]
        assert len(names) == len(set(names)), (tag, names)
        node = Node(tag, {name: value or "" for name, value in attrs})
        self.open[-1].children.append(node)
        if tag not in _VOID:
            self.open.append(node)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in _VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open[-1].tag == tag, f"</{tag}> closes <{self.open[-1].tag}>"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        self.open[-1].children.append(data)


def parse(html: str) -> Node:
    """The page; fails where elements are not closed in order."""
    builder = _Builder()
    builder.feed(html)
    builder.close()
    (root,) = builder.open
    return root
