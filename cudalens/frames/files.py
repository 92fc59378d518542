"""Writing a file whole or not at all."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Final

from cudalens.errors import OutputError

_SEPARATORS: Final = tuple(filter(None, (os.sep, os.altsep)))


@contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Open a neighbour of `path` for writing, and put it in `path`'s place once the block has ended well.

    A reader never sees half a file, and an existing file stays as it was when the block raises.

    Raises:
        OutputError: The folder does not exist, is not writable, or `path` is a folder.
    """
    target = check_target(path)
    try:
        handle, name = tempfile.mkstemp(prefix=f".{target.name[:80]}.", suffix=".part", dir=target.parent)
    except OSError as error:
        raise _refusal(target, error) from error
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
        _give_usual_mode(name, target)
        os.replace(name, target)
    except OSError as error:
        raise _refusal(target, error) from error
    finally:
        with suppress(FileNotFoundError):
            os.unlink(name)


def check_target(path: str | os.PathLike[str]) -> Path:
    """`path` as a Path, once a file can stand there: its folder exists and it is not a folder itself.

    Raises:
        OutputError: It cannot.
    """
    target = Path(path)
    if target.is_dir() or os.fspath(path).endswith(_SEPARATORS):  # a Path forgets the separator at its end
        raise OutputError(f"cannot write {target}: it is a folder; give a file name in it.")
    if not target.parent.is_dir():
        raise OutputError(f"cannot write {target}: there is no folder {target.parent}; create it first.")
    return target


def _refusal(target: Path, error: OSError) -> OutputError:
    return (
        error if isinstance(error, OutputError) else OutputError(f"cannot write {target}: {error.strerror or error}.")
    )


def _give_usual_mode(name: str, target: Path) -> None:
    """The mode that open() would have given, or that the file being replaced has; mkstemp makes private files."""
    if target.exists():
        mode = target.stat().st_mode & 0o777
    else:
        umask = os.umask(0)
        os.umask(umask)
        mode = 0o666 & ~umask
    Path(name).chmod(mode)


@contextmanager
def atomic_folder(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Open a new folder beside `path` for writing, and put its files into `path` once the block has ended well.

    `path` is made where it does not exist. Files in it that the block wrote as well are replaced, one by one; others
    stay. When the block raises, nothing has changed.

    Raises:
        OutputError: The folder around `path` does not exist or is not writable, or `path` is a file.
    """
    target = Path(path)
    if target.exists() and not target.is_dir():
        raise OutputError(f"cannot write {target}: it is a file; expected a folder, or a name that is free.")
    if not target.parent.is_dir():
        raise OutputError(f"cannot write {target}: there is no folder {target.parent}; create it first.")
    try:
        made = Path(tempfile.mkdtemp(prefix=f".{target.name[:80]}.", suffix=".part", dir=target.parent))
    except OSError as error:
        raise _refusal(target, error) from error
    try:
        yield made
        for file in made.iterdir():
            _give_usual_mode(str(file), target / file.name)
        target.mkdir(exist_ok=True)
        for file in sorted(made.iterdir()):
            os.replace(file, target / file.name)
    except OSError as error:
        raise _refusal(target, error) from error
    finally:
        shutil.rmtree(made, ignore_errors=True)
