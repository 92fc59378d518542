"""Metadata that a program adds to its profile, as with torch.profiler's ``add_metadata``."""

from __future__ import annotations

import json


class UserMetadata(dict[str, str]):
    """JSON texts by key."""

    def add(self, key: str, value: str) -> None:
        """Add a text.

        Raises:
            TypeError: `key` or `value` is not text.
        """
        if not isinstance(value, str):
            raise TypeError(
                f"the metadata {key!r} is {type(value).__name__}, expected text; add_metadata_json takes JSON"
            )
        self.add_json(key, json.dumps(value))

    def add_json(self, key: str, value: str) -> None:
        """Add a JSON text.

        Raises:
            TypeError: `key` or `value` is not text.
            ValueError: `value` is not JSON.
        """
        if not isinstance(key, str) or not isinstance(value, str):
            raise TypeError(f"metadata {key!r}: {type(value).__name__}, expected a key and a JSON text")
        try:
            json.loads(value)
        except ValueError as error:
            raise ValueError(f"the metadata {key!r} is not JSON: {error}. add_metadata takes plain text.") from error
        self[key] = value

    def to_extra(self) -> dict[str, str]:
        """Return the form for `RunInfo.extra`: one JSON object under ``metadata``."""
        return {"metadata": json.dumps({key: json.loads(value) for key, value in self.items()})} if self else {}
