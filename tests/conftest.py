"""What several test files share: the real data beside the checkout, and a tokenizer that needs no download."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch
from hypothesis import settings
from transformers import BertTokenizer

# Runs that are compared bit by bit, some of them in processes of their own, sum in the same order.
torch.set_num_threads(1)
# A slow machine is no fault of the code: laws are not timed.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")

SHARED = Path(__file__).resolve().parents[1].parent / "shared"


def real_data() -> Path:
    """``../shared/data`` beside the repository; without it the test is skipped, in CI it fails."""
    folder = SHARED / "data"
    if not folder.is_dir():
        reason = "the real data is not there: ../shared/data beside the repository"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    return folder


@pytest.fixture(scope="session")
def shared_data() -> Path:
    return real_data()


@pytest.fixture
def letters() -> BertTokenizer:
    """A BERT tokenizer whose words are the letters a to z: ids 5 to 30, pad 0, [CLS] 2, [SEP] 3."""
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefghijklmnopqrstuvwxyz"]
    return BertTokenizer(vocab={word: index for index, word in enumerate(words)})
