"""CSL: are all the keywords those of the abstract?"""

from __future__ import annotations

from maskwright.data.rows import Row
from maskwright.data.tasks.spec import Texts, take
from maskwright.errors import InputError


def keywords_and_abstract(row: Row, where: str) -> Texts:
    """The keywords joined by ``；``, paired with the abstract.

    Example:
        >>> keywords_and_abstract({"keyword": ["水稻", "产量"], "abst": "研究了水稻。"}, "a:1")
        ('水稻；产量', '研究了水稻。')
    """
    keywords = take(row, "keyword", list, where)
    if not all(isinstance(keyword, str) for keyword in keywords):
        raise InputError("field 'keyword' holds something other than strings", where)
    return "；".join(keywords), take(row, "abst", str, where)
