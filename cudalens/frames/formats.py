"""The formats that a Trace can be written in, by name and by file suffix. Imports no pandas."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from cudalens.errors import OutputError

if TYPE_CHECKING:
    from cudalens.frames import Trace


@dataclass(frozen=True)
class Format:
    """One format.

    Attributes:
        suffixes: File suffixes that select it; none for a format that is only selected by name.
        is_folder: Whether it is a folder of files; None if the suffix decides.
        what: Short description.
        write: Writes a Trace to a path.
    """

    suffixes: tuple[str, ...]
    is_folder: bool | None
    what: str
    write: Callable[..., Path]


def _by(method: str) -> Callable[..., Path]:
    def write(trace: Trace, path: Path, **options: Any) -> Path:
        return getattr(trace, method)(path, **options)

    return write


# The longest matching suffix decides, so that .speedscope.json is not a Chrome trace.
FORMATS: Final[dict[str, Format]] = {
    "cudalens": Format((".cudalens",), False, "a saved Trace, exactly as it is", _by("save")),
    "chrome": Format((".json", ".json.gz"), False, "Chrome trace JSON, for Perfetto", _by("to_chrome")),
    "speedscope": Format((".speedscope.json", ".speedscope"), False, "for speedscope.app", _by("to_speedscope")),
    "collapsed": Format((".collapsed", ".folded"), False, "stacks for flamegraph.pl, inferno", _by("to_collapsed")),
    "parquet": Format((".parquet",), None, "the events, or a folder with every frame", _by("to_parquet")),
    "csv": Format((), True, "a folder with every frame", _by("to_csv")),
    "hta": Format((), True, "a folder for HolisticTraceAnalysis", _by("to_hta")),
}


def format_of(path: Path, name: str | None) -> Format:
    """Return the format `name`, or by default that of the suffix of `path`.

    Raises:
        OutputError: There is no such format; the message lists them.
    """
    if name is not None:
        if name not in FORMATS:
            raise OutputError(f"unknown format {name!r}; expected one of {', '.join(FORMATS)}.")
        return FORMATS[name]
    fitting = [
        (len(suffix), known) for known in FORMATS.values() for suffix in known.suffixes if _ends(path.name, suffix)
    ]
    if not fitting:
        suffixes = ", ".join(suffix for known in FORMATS.values() for suffix in known.suffixes)
        raise OutputError(
            f"{path}: no format for this suffix; expected {suffixes}, or --format with one of {', '.join(FORMATS)}."
        )
    return max(fitting, key=lambda pair: pair[0])[1]


def _ends(name: str, suffix: str) -> bool:
    return name.lower().endswith(suffix)


def is_folder(format: Format, path: Path) -> bool:
    """Return whether what `format` writes to `path` is a folder."""
    if format.is_folder is not None:
        return format.is_folder
    return not any(_ends(path.name, suffix) for suffix in format.suffixes)


def help_text() -> str:
    """Return the formats, for a command's help."""
    listed = {name: f" ({', '.join(known.suffixes)})" if known.suffixes else "" for name, known in FORMATS.items()}
    return "; ".join(f"{name}{listed[name]}: {known.what}" for name, known in FORMATS.items())
