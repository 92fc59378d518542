"""Write files and folders atomically."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, Final

from cudalens.errors import OutputError

_SEPARATORS: Final = tuple(filter(None, (os.sep, os.altsep)))


@contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Open a temporary file beside `path` for writing, and rename it to `path` if the block succeeds.

    A reader never sees an incomplete file, and an existing file is unchanged if the block raises. A symbolic link
    stays, and the file that it names is replaced. A device or pipe is written in place.

    Raises:
        OutputError: The folder does not exist, is not writable, or `path` is a folder.
    """
    target = check_target(path)
    if target.exists() and not target.is_file():
        with _as_output_error(target), open(target, "wb") as file:
            yield file
        return
    with _as_output_error(target):
        target = Path(os.path.realpath(target))
        _check_parent(target)
        handle, name = tempfile.mkstemp(prefix=f".{target.name[:80]}.", suffix=".part", dir=target.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                yield file
            _set_usual_mode(name, target)
            os.replace(name, target)
        finally:
            with suppress(FileNotFoundError):
                os.unlink(name)


def check_target(path: str | os.PathLike[str]) -> Path:
    """`path` as a Path, if a file can be written there.

    Raises:
        OutputError: Its folder does not exist, or it is a folder itself.
    """
    target = Path(path)
    with _as_output_error(target):
        if target.is_dir() or os.fspath(path).endswith(_SEPARATORS):  # a Path drops a separator at its end
            raise OutputError(f"cannot write {target}: it is a folder; give a file name in it.")
        _check_parent(target)
        target.exists()  # raises for a name that is too long
        if os.path.islink(os.path.realpath(target)):  # noqa: PTH114
            raise OutputError(f"cannot write {target}: it is a symbolic link in a circle of links.")
    return target


def _check_parent(target: Path) -> None:
    if not target.parent.is_dir():
        raise OutputError(f"cannot write {target}: there is no folder {target.parent}; create it first.")


def filesystem_of(url: str) -> tuple[Any, str]:
    """Return the fsspec file system of a path or URL, and the path in it."""
    from fsspec.core import url_to_fs  # a dependency of torch; slow to import

    filesystem, path = url_to_fs(url)
    return filesystem, path


@contextmanager
def _as_output_error(target: Path) -> Iterator[None]:
    try:
        yield
    except OutputError:
        raise
    except OSError as error:
        raise OutputError(f"cannot write {target}: {error.strerror or error}.") from error


def _set_usual_mode(name: str, target: Path) -> None:
    """Set the mode that open() would set, or that of the file to replace; mkstemp makes private files."""
    if target.exists():
        mode = target.stat().st_mode & 0o777
    else:
        umask = os.umask(0)
        os.umask(umask)
        mode = 0o666 & ~umask
    Path(name).chmod(mode)


@contextmanager
def atomic_folder(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Open a temporary folder beside `path`, and move its files into `path` if the block succeeds.

    `path` is made if it does not exist. Files of the same name in it are replaced, one by one; others stay. If the
    block raises, nothing changes.

    Raises:
        OutputError: The folder around `path` does not exist or is not writable, or `path` is a file.
    """
    target = Path(path)
    if target.exists() and not target.is_dir():
        raise OutputError(f"cannot write {target}: it is a file; expected a folder, or a name that is free.")
    _check_parent(target)
    with _as_output_error(target):
        made = Path(tempfile.mkdtemp(prefix=f".{target.name[:80]}.", suffix=".part", dir=target.parent))
        try:
            yield made
            for file in made.iterdir():
                _set_usual_mode(str(file), target / file.name)
            target.mkdir(exist_ok=True)
            for file in sorted(made.iterdir()):
                os.replace(file, target / file.name)
        finally:
            shutil.rmtree(made, ignore_errors=True)
