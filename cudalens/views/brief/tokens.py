"""Estimate, without a tokenizer, how many tokens of a language model a text needs.

The estimate is meant to be too large, not too small. A token of common tokenizers (byte-pair encodings of 30,000 to
200,000 entries) covers about four characters of English and about three of code. Counted here are one token

- for every three letters of a word (``cudaMalloc`` is two words), rounded up;
- for every digit, as in the tokenizers that split numbers into digits;
- for every two signs in a row (``":`` is one), rounded up;
- for white space, unless it is one space before something else than a digit;
- for every UTF-8 byte of other characters;

and never less than one for every three characters of the text.
"""

from __future__ import annotations

import re
from typing import Final

_LETTERS: Final = 3
_SIGNS: Final = 2
_PART: Final = re.compile(
    r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]| (?=[^\s\d])|\s+|[^\x00-\x7f]+|[!-/:-@\[-`{-~]+|.", re.DOTALL
)


def estimate_tokens(text: str) -> int:
    """Number of tokens that `text` needs at most with common tokenizers, as the module defines it."""
    return max(sum(map(_cost, _PART.findall(text))), -(-len(text) // _LETTERS))


def _cost(part: str) -> int:
    if not part.isascii():
        return len(part.encode("utf-8", "replace"))
    if part.isspace() or part.isdigit():
        return int(part != " ")
    return -(-len(part) // (_LETTERS if part.isalpha() else _SIGNS))
