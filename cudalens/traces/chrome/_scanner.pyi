"""Types of the compiled scanner."""

from typing import Any

def scan(
    data: bytes, fields: tuple[tuple[bytes, str], ...], is_exact: bool, seed: int, /
) -> tuple[Any, ...] | None: ...
