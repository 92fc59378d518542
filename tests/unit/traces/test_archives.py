"""The only trace in a folder, a zip or a tar archive is found by its contents and read."""

import gzip
import io
import json
import tarfile
import zipfile

import pytest
from chrome import column, load_bytes, load_events, op, write

import cudalens
from cudalens.errors import TraceFormatError, UnsafeSnapshotError

PLAIN = json.dumps({"traceEvents": [op(1, 2, name="here")]}).encode()
OTHERS = {"notes.txt": b"hello", "settings.json": b'{"a": 1}', "deep/empty": b""}


def zipped(members):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def tarred(members):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


@pytest.mark.parametrize("content", [PLAIN, gzip.compress(PLAIN)], ids=["plain", "gzip"])
@pytest.mark.parametrize(
    "wrap", [zipped, tarred, lambda found: gzip.compress(tarred(found)), lambda found: zipped({"x.tar": tarred(found)})]
)
def test_the_trace_in_an_archive(tmp_path, wrap, content):
    trace = load_bytes(tmp_path, wrap({**OTHERS, "run/worker.pt.trace.json": content}), "given")
    assert column(trace, "name") == ["here"]
    assert trace.info.name in ("worker", "worker.pt")
    assert [path.name for path in tmp_path.iterdir()] == ["given"]


def test_the_trace_in_a_folder(tmp_path):
    (tmp_path / "deep").mkdir()
    for name, content in OTHERS.items():
        (tmp_path / name).write_bytes(content)
    write(tmp_path / "deep" / "trace.json.gz", [op(1, 2, name="here")])
    assert column(cudalens.load(tmp_path), "name") == ["here"]


def test_several_traces_are_listed(tmp_path):
    for name in ("a.json", "b.json"):
        write(tmp_path / name, [op(1, 2)])
    with pytest.raises(TraceFormatError, match=r"a folder with 2 traces \('a.json', 'b.json'\).*load_ranks"):
        cudalens.load(tmp_path)


def test_a_saved_trace_in_an_archive(tmp_path):
    saved = load_events(tmp_path, [op(1, 2, name="here")]).save(tmp_path / "run.cudalens").read_bytes()
    trace = load_bytes(tmp_path, tarred({"run.cudalens": saved}), "given")
    assert column(trace, "name") == ["here"]
    assert column(load_bytes(tmp_path, gzip.compress(saved), "saved.gz"), "name") == ["here"]


def test_damage_names_the_archive_and_its_member(tmp_path):
    broken = b'{"traceEvents": [{"ph": "X"' + b" " * 50
    with pytest.raises(TraceFormatError, match=r"given, member 'a\.json', byte \d+: found no usable event") as raised:
        load_bytes(tmp_path, zipped({"a.json": broken}), "given")
    assert raised.value.path.endswith("given")


def test_a_hostile_pickle_in_an_archive_is_refused(tmp_path):
    with pytest.raises(UnsafeSnapshotError, match=r"in member 'x\.pickle'"):
        load_bytes(tmp_path, zipped({"x.pickle": b"\x80\x04cos\nsystem\n."}))


@pytest.mark.parametrize("name", ["../../escape.json", "/etc/x.json", "a\0b.json", "x" * 300 + ".json"])
def test_names_of_members_are_not_paths(tmp_path, name):
    trace = load_bytes(tmp_path, tarred({name: PLAIN}), "given")
    assert len(trace) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["given"]


def test_links_and_devices_in_a_tar_are_not_followed(tmp_path):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE):
            info = tarfile.TarInfo(f"link{kind!r}")
            info.type, info.linkname = kind, "/etc/passwd"
            archive.addfile(info)
    with pytest.raises(TraceFormatError, match="a tar archive without files"):
        load_bytes(tmp_path, buffer.getvalue())


def test_an_archive_that_expands_too_far_is_refused(tmp_path):
    path = tmp_path / "given"
    path.write_bytes(zipped({"a.json": PLAIN + b" " * 100_000}))
    with pytest.raises(TraceFormatError, match="bytes or more in a member of the archive"):
        cudalens.load(path, max_bytes=50_000)
    assert len(cudalens.load(path, max_bytes=500_000)) == 1


def test_archives_in_archives_end_somewhere(tmp_path):
    content = PLAIN
    for _ in range(8):
        content = tarred({"x": content})
    with pytest.raises(TraceFormatError, match="archives in archives"):
        load_bytes(tmp_path, content)


def test_an_encrypted_zip_says_what_to_do(tmp_path):
    data = bytearray(zipped({"a.json": PLAIN}))
    for header in (data.index(b"PK\3\4") + 6, data.index(b"PK\1\2") + 8):
        data[header] |= 1
    with pytest.raises(TraceFormatError, match="without a trace"):
        load_bytes(tmp_path, bytes(data))
