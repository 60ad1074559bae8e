"""`maskwright draw`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jsonargparse import Namespace

from maskwright.cli.options import Parser
from maskwright.cli.terminal import working
from maskwright.errors import InputError

if TYPE_CHECKING:
    from maskwright.masks import Panel

# In the order in which they are drawn, with what each is called above its picture.
TITLES = {
    "padding": "padding",
    "causal": "causal",
    "both": "padding & causal",
    "window": "padding & window of {window}",
    "mae": "padding & {hide:.0%} hidden (MAE)",
    "documents": "documents packed in one row",
}
PAD = "[PAD]"


def build_parser() -> Parser:
    """Texts or lengths, and which masks."""
    parser = Parser("draw")
    parser.usage = "maskwright draw TEXT [TEXT ...] [options]"
    add = parser.add_argument
    add("texts", metavar="TEXT", nargs="*", type=str, help="the rows of the batch")
    add("--lengths", nargs="+", type=int, default=None, help="rows of these lengths in place of texts")
    add("--tokenizer", type=str | None, default=None, help="tokenizer folder or hub name (default: words, characters)")
    add("--masks", nargs="+", choices=list(TITLES), default=["padding", "causal", "both"], help="which to draw")
    add("--row", type=int | None, default=None, help="the row to show, from 0 (default: the one with most padding)")
    add("--side", choices=["right", "left"], default="right", help="where the padding stands")
    add("--window", type=int, default=2, help="tokens seen on each side, for the mask 'window'")
    add("--hide", type=float, default=0.5, help="share of tokens hidden, for the mask 'mae'")
    add("--max_length", type=int, default=128, help="longest row; the rest is cut")
    add("--seed", type=int, default=0, help="seed of the tokens that are hidden")
    add("--output", type=str | None, default=None, help="picture to write, .png, .svg or .pdf (default: print text)")
    add("--font", type=str | None, default=None, help="font name or file (default: one that has every character)")
    return parser


def run(options: Namespace) -> int:
    """Draw, or print, the masks of one row."""
    with working():
        from maskwright import masks

        rows = _rows(options)
        row = min(range(len(rows)), key=lambda i: len(rows[i])) if options.row is None else options.row
        if not 0 <= row < len(rows):
            raise InputError(f"there is no row {row}, only 0 to {len(rows) - 1}", "--row")
        panels = _panels(options, rows, row)
        if options.output is not None:
            masks.draw(panels, options.output, font=options.font)
    which = f"row {row} of a batch of {len(rows)}" if len(rows) > 1 else "one row"
    if options.output is None:
        print(f"{which}\n\n" + "\n\n".join(masks.text(panel) for panel in panels))
    else:
        print(f"wrote {Path(options.output)}: {which}")
    return 0


def _panels(options: Namespace, rows: list[list[str]], row: int) -> list[Panel]:
    import torch

    from maskwright import masks
    from maskwright.core.sampling import sample_kept

    lengths = [len(row) for row in rows]
    padding = masks.padding(lengths=lengths, side=options.side)
    pads = [PAD] * (max(lengths) - lengths[row])
    tokens = [*pads, *rows[row]] if options.side == "left" else [*rows[row], *pads]
    together = [token for row in rows for token in row]
    bounds = [0, *torch.tensor(lengths).cumsum(0).tolist()]

    def hidden() -> Any:
        if not 0 <= options.hide < 1:
            raise InputError(f"must be at least 0 and below 1, got {options.hide}", "--hide")
        generator = torch.Generator().manual_seed(options.seed)
        keep = padding.to_attention_mask().bool()
        return padding & masks.hide_columns(keep & ~sample_kept(keep, keep, options.hide, generator))

    make: dict[str, Callable[[], Any]] = {
        "padding": lambda: padding,
        "causal": masks.causal,
        "both": lambda: padding & masks.causal(),
        "window": lambda: padding & masks.sliding_window(options.window, options.window),
        "mae": hidden,
        "documents": lambda: masks.documents(cu_seqlens=bounds),
    }
    panels = []
    for name in options.masks:
        title = TITLES[name].format(window=options.window, hide=options.hide)
        if name == "documents":
            panels.append(masks.Panel(title, make[name](), together))
        else:
            panels.append(masks.Panel(title, make[name](), tokens, row))
    return panels


def _rows(options: Namespace) -> list[list[str]]:
    """The labels of every row's tokens."""
    if bool(options.texts) == bool(options.lengths):
        raise InputError("give texts or --lengths, one of the two")
    if options.lengths:
        if min(options.lengths) < 1:
            raise InputError(f"must be 1 or more, got {min(options.lengths)}", "--lengths")
        return [[str(i) for i in range(min(n, options.max_length))] for n in options.lengths]
    split = _words if options.tokenizer is None else _pieces(options.tokenizer)
    rows: list[list[str]] = [split(text)[: options.max_length] for text in options.texts]
    if not all(rows):
        raise InputError("has no tokens", f"text {rows.index([])}")
    return rows


def _words(text: str) -> list[str]:
    """Words and punctuation, and every Chinese character by itself, as BERT's tokenizer splits first."""
    from tokenizers.normalizers import BertNormalizer
    from tokenizers.pre_tokenizers import BertPreTokenizer

    normal = BertNormalizer(lowercase=False, strip_accents=False).normalize_str(text)
    return [word for word, _ in BertPreTokenizer().pre_tokenize_str(normal)]


def _pieces(name: str) -> Callable[[str], list[str]]:
    """The tokenizer's pieces, each shown as the text it came from; special tokens by their names."""
    from maskwright.training.models import load_tokenizer

    tokenizer = load_tokenizer(name)

    def split(text: str) -> list[str]:
        encoded = tokenizer(text, return_offsets_mapping=True)
        names = tokenizer.convert_ids_to_tokens(encoded["input_ids"])
        spans = encoded["offset_mapping"]
        shown = [text[a:b].strip() if name.strip("▁Ġ") else "" for name, (a, b) in zip(names, spans, strict=True)]
        return [piece or name for piece, name in zip(shown, names, strict=True)]

    return split
