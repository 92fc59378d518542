"""Writing files: links, devices and pipes stay what they are."""

import os
import threading

import pytest

from cudalens.errors import OutputError
from cudalens.frames import atomic_write


def put(path, data=b"new"):
    with atomic_write(path) as file:
        file.write(data)


def test_a_link_stays_and_its_file_is_replaced(tmp_path):
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_bytes(b"old")
    link.symlink_to(target)
    put(link)
    assert link.is_symlink()
    assert target.read_bytes() == b"new"


def test_a_link_to_a_file_that_does_not_exist(tmp_path):
    (tmp_path / "link").symlink_to("later")
    put(tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "later").read_bytes() == b"new"


def test_a_link_into_a_missing_folder(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "none" / "file")
    with pytest.raises(OutputError, match="there is no folder"):
        put(tmp_path / "link")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_a_pipe_gets_the_bytes(tmp_path):
    pipe, found = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: found.append(pipe.read_bytes()))
    reader.start()
    put(pipe)
    reader.join()
    assert found == [b"new"]
    assert pipe.is_fifo()


def test_a_device_stays_a_device():
    put(os.devnull)
    assert not os.path.isfile(os.devnull)


def test_a_name_that_is_too_long(tmp_path):
    with pytest.raises(OutputError, match="too long"):
        put(tmp_path / ("x" * 5000))


def test_links_in_a_circle_are_refused(tmp_path):
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(OutputError, match="in a circle of links"), atomic_write(tmp_path / "a"):
        pass
    assert sorted(file.name for file in tmp_path.iterdir()) == ["a", "b"]
    assert (tmp_path / "a").is_symlink()
