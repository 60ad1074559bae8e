"""Which rules may be broken, and why: a YAML file of {rule: reason}."""

from __future__ import annotations

from pathlib import Path

import yaml

from maskwright.errors import InputError


def read_allowed(path: str | Path) -> dict[str, str]:
    """The rules that may be broken, each with its reason.

    Raises:
        InputError: no readable YAML, or anything but a reason in words for each rule.

    Example:
        >>> import tempfile
        >>> file = Path(tempfile.mkdtemp()) / "allow.yaml"
        >>> _ = file.write_text("padding-content: rows are never padded here", encoding="utf-8")
        >>> read_allowed(file)
        {'padding-content': 'rows are never padded here'}
    """
    try:
        allowed = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise InputError(f"cannot be read: {' '.join(str(error).split())}", str(path)) from None
    if not isinstance(allowed, dict) or not all(isinstance(reason, str) for reason in allowed.values()):
        raise InputError("must hold {rule: reason}, a reason in words each", str(path))
    return {str(rule): reason for rule, reason in allowed.items()}
