"""A font that has the characters of the labels: matplotlib's own has no Chinese."""

from __future__ import annotations

from pathlib import Path

from maskwright.errors import InputError

_OWN = "DejaVu Sans"
# Tried first, by name: what Linux, Windows and macOS ship or offer for Chinese, Japanese and Korean.
_KNOWN = (
    "Noto Sans CJK SC",
    "Noto Sans SC",
    "Source Han Sans SC",
    "WenQuanYi Micro Hei",
    "WenQuanYi Zen Hei",
    "Microsoft YaHei",
    "SimHei",
    "PingFang SC",
    "Hiragino Sans GB",
    "Heiti SC",
    "Arial Unicode MS",
    "Droid Sans Fallback",
)


def font_for(characters: str, font: str | None = None) -> list[str]:
    """Font names, in order, that together have every character; `font` is a file, or a name to try first.

    Raises:
        InputError: no installed font has them, or the font file does not exist.
    """
    from matplotlib import font_manager

    manager = font_manager.fontManager
    if font is not None and Path(font).suffix.lower() in (".ttf", ".otf", ".ttc"):
        if not Path(font).is_file():
            raise InputError("there is no such font file", font)
        manager.addfont(font)
        font = manager.ttflist[-1].name
    paths: dict[str, str] = {}
    for entry in manager.ttflist:
        paths.setdefault(entry.name, entry.fname)
    wanted = {ord(c) for c in characters if not c.isspace()}
    first = [_OWN] if font is None else [font, _OWN]
    for name in first:
        wanted -= _characters(paths.get(name))
    if not wanted:
        return first
    drawn = [name for name in sorted(paths) if not name.startswith("Last Resort")]  # has a box for every character
    for name in (*_KNOWN, *drawn):
        if name in paths and wanted <= _characters(paths[name]):
            return [*first, name]
    shown = "".join(map(chr, sorted(wanted)[:12]))
    raise InputError(
        f"no installed font has the characters {shown}; install one (Noto Sans CJK, say: fonts-noto-cjk on Debian and "
        "Ubuntu), name a font file with font=, or use the text form, which needs none"
    )


def _characters(path: str | None) -> set[int]:
    from matplotlib.font_manager import get_font

    return set() if path is None else set(get_font(path).get_charmap())
