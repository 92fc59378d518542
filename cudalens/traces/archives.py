"""Find the one trace in a folder, a zip or a tar archive, and read it.

Members are judged by their contents. The one that is a trace is copied to a temporary file, in bounded pieces, and read
as any other file.
"""

from __future__ import annotations

import gzip
import os
import re
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Final, Protocol

from cudalens.errors import TraceFormatError, UnsafeSnapshotError
from cudalens.frames import Trace
from cudalens.frames.limits import Limit
from cudalens.traces.detect import Kind, kind_of_head

LoadOne = Callable[[Path], Trace]

_HEAD: Final = 1 << 16
_PIECE: Final = 1 << 20
_MAX_MEMBERS: Final = 10_000
_NAMED: Final = 6
_UNSAFE: Final = re.compile(r"[^\w.\-+@ ]")
_DAMAGE: Final = (zipfile.BadZipFile, tarfile.TarError, zlib.error, EOFError, NotImplementedError, RuntimeError)
_EXPECTED: Final = "one trace among its files"
_RANKS: Final = "cudalens.load_ranks(FOLDER) reads the ranks of a job from a folder; load one of them by its name."


class _Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...


@dataclass(frozen=True)
class _Member:
    """A file in an archive or folder.

    Attributes:
        name: Its name there.
        num_bytes: Its size.
        packed: Bytes that it takes in the archive; None if it is not compressed there.
        open: Opens it.
    """

    name: str
    num_bytes: int
    packed: int | None
    open: Callable[[], IO[bytes]]


def is_saved_trace(path: Path) -> bool:
    """Return whether a zip archive may be a saved Trace; also if it is too damaged to decide."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
    except (*_DAMAGE, ValueError):
        return True
    return not names or any(name.endswith(".parquet") for name in names)


def load_zip(path: Path, limit: Limit, load_one: LoadOne) -> Trace:
    """Return the only trace in a zip archive."""
    with _as_format_error(path, "zip"), zipfile.ZipFile(path) as archive:
        infos = [info for info in archive.infolist()[: _MAX_MEMBERS + 1] if not info.is_dir()]
        members = [_of_zip(archive, info) for info in infos]
        return _load_only(path, "a zip archive", members, limit, load_one)


def _of_zip(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> _Member:
    return _Member(info.filename, info.file_size, info.compress_size, lambda: archive.open(info))


def load_tar(path: Path, limit: Limit, load_one: LoadOne) -> Trace:
    """Return the only trace in a tar archive that is not compressed."""
    with _as_format_error(path, "tar"), tarfile.open(path, "r:") as archive:
        members = []
        for info in archive:
            if info.isreg():
                members.append(_of_tar(archive, info))
            if len(members) > _MAX_MEMBERS:
                break
        return _load_only(path, "a tar archive", members, limit, load_one)


def _of_tar(archive: tarfile.TarFile, info: tarfile.TarInfo) -> _Member:
    def opened() -> IO[bytes]:
        file = archive.extractfile(info)
        if file is None:
            raise tarfile.ReadError("a member without contents")
        return file

    return _Member(info.name, info.size, None, opened)


def load_folder(path: Path, load_one: LoadOne) -> Trace:
    """Return the only trace in a folder and the folders in it."""
    members = []
    for folder, _, names in os.walk(path):
        for name in sorted(names):
            file = Path(folder, name)
            if file.is_file():
                members.append(_of_file(path, file))
        if len(members) > _MAX_MEMBERS:
            break
    return load_one(path / _only(path, "a folder", members).name)


def _of_file(folder: Path, file: Path) -> _Member:
    return _Member(file.relative_to(folder).as_posix(), file.stat().st_size, None, lambda: open(file, "rb"))


def _load_only(path: Path, what: str, members: list[_Member], limit: Limit, load_one: LoadOne) -> Trace:
    member = _only(path, what, members)
    with member.open() as file:
        return load_copy(path, member.name, file, limit, load_one, num_bytes=member.num_bytes, packed=member.packed)


def _only(path: Path, what: str, members: list[_Member]) -> _Member:
    """Return the member that is a trace.

    Raises:
        TraceFormatError: There is none, or there are several.
    """
    if len(members) > _MAX_MEMBERS:
        raise TraceFormatError(path, found=f"{what} of more than {_MAX_MEMBERS:,} files", expected=_EXPECTED)
    kinds = {member.name: kind for member in members if (kind := _kind(member)) is not None}
    found = [member for member in members if member.name in kinds]
    if len({PurePosixPath(member.name).parent for member in found}) == 1:
        # The profilers of JAX and TensorFlow write the same run in several formats into one folder.
        found = [member for member in found if kinds[member.name] is Kind.XPLANE] or found
    if len(found) == 1:
        return found[0]
    names = ", ".join(repr(member.name[:80]) for member in (found or members)[:_NAMED])
    more = ", …" if len(found or members) > _NAMED else ""
    if found:
        text, hint = f"{what} with {len(found)} traces ({names}{more})", _RANKS
    else:
        text = f"{what} without a trace ({names}{more})" if members else f"{what} without files"
        hint = "If one of its files is a trace, load that."
    raise TraceFormatError(path, found=text, expected=_EXPECTED, hint=hint)


def _kind(member: _Member) -> Kind | None:
    try:
        with member.open() as file:
            return kind_of_head(file.read(_HEAD))
    except (*_DAMAGE, OSError):
        return None


def load_copy(
    path: Path,
    name: str,
    file: _Readable,
    limit: Limit,
    load_one: LoadOne,
    *,
    num_bytes: int = 0,
    packed: int | None = None,
) -> Trace:
    """Return the Trace in `file`, the member `name` of `path`, read from a temporary copy.

    Args:
        path: The archive, for messages.
        name: The member.
        file: Its contents.
        limit: Bounds its size.
        load_one: Reads a file.
        num_bytes: The size that the archive gives, 0 if it gives none.
        packed: Bytes of the archive that it takes; None if it is not compressed.
    """
    where = f"member {name[:200]!r}"
    limit.check(num_bytes, packed, what="a member of the archive", position=where)
    with tempfile.TemporaryDirectory(prefix="cudalens-") as folder:
        copy = Path(folder, _UNSAFE.sub("_", Path(name).name)[-120:] or "trace")
        with open(copy, "wb") as target:
            size = 0
            while piece := file.read(_PIECE):
                size += len(piece)
                limit.check(size, packed, what="a member of the archive", position=where)
                target.write(piece)
        with _as_member(path, where):
            return load_one(copy)


def load_unpacked(path: Path, file: gzip.GzipFile, limit: Limit, load_one: LoadOne) -> Trace:
    """Return the Trace in `file`, what the gzip file `path` holds."""
    with _as_format_error(path, "gzip"):
        try:
            return load_copy(path, path.name.removesuffix(".gz"), file, limit, load_one, packed=path.stat().st_size)
        except gzip.BadGzipFile as error:
            raise zlib.error(str(error)) from error


@contextmanager
def _as_member(path: Path, where: str) -> Iterator[None]:
    """Errors about the temporary copy name the archive and its member."""
    try:
        yield
    except UnsafeSnapshotError as error:
        raise UnsafeSnapshotError(
            path, found=f"{error.found} in {where}", expected=error.expected, opcode=error.opcode, byte=error.byte
        ) from None
    except TraceFormatError as error:
        position = f"{where}, {error.position}" if error.position else where
        raise TraceFormatError(
            path, position=position, found=error.found, expected=error.expected, hint=error.hint
        ) from None


@contextmanager
def _as_format_error(path: Path, what: str) -> Iterator[None]:
    try:
        yield
    except _DAMAGE as error:
        found = f"a damaged {what} archive ({str(error)[:200]})"
        hint = "It may be cut short or encrypted: unpack it, and load the trace that is in it."
        raise TraceFormatError(path, found=found, expected="a whole archive", hint=hint) from error
