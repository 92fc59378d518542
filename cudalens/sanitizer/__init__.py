"""The stream-race sanitizer: who touched which bytes on which stream, and what orders them."""

from cudalens.sanitizer.engine import Race, RaceKind
from cudalens.sanitizer.replay import replay

__all__ = ["Race", "RaceKind", "replay"]
