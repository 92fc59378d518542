"""Attach to a watched process: the same state, by the same user alone, and the process goes on without its viewer."""

import json
import os
import socket
import stat
import subprocess
import tempfile
import threading
from contextlib import suppress
from pathlib import Path

import pytest
import torch

import cudalens
from cudalens.__main__ import main
from cudalens.watching import link


@pytest.fixture
def folder(monkeypatch):
    """The runtime folder; short, because the path of a socket has at most 107 bytes."""
    with tempfile.TemporaryDirectory() as made:
        monkeypatch.setenv("XDG_RUNTIME_DIR", made)
        yield Path(made)


@pytest.fixture
def run(folder):
    """A watched loop that has made steps and a recording, and is still on."""
    with cudalens.watch("job", budget=0.5) as w:
        x = torch.ones(8, 8)
        while not w.traces:
            x = x @ x * 0.01
            w.step()
        yield w


def test_a_viewer_sees_the_steps_and_the_last_recording(run):
    other = cudalens.attach(os.getpid())
    seen = other.read()
    assert seen.facts.name == "job"
    assert seen.steps().equals(run.steps)
    (trace,) = (seen.trace(one) for one in seen.recordings[-1:])
    assert trace.events.equals(run.traces[-1].events)


def test_a_viewer_can_ask_for_a_recording_and_for_the_end(run):
    other = cudalens.attach()
    other.record()
    while not any(one.reason == "requested" for one in run.run.recordings):
        run.step()
    other.stop()
    run.step()
    assert not run.is_on
    run.step()  # the loop goes on
    with pytest.raises(cudalens.WatchError, match="is not watched"):
        other.read()


def test_the_command_prints_the_state_and_writes_a_page(run, tmp_path, capsys):
    assert main(["attach", "--once", "-o", str(tmp_path / "run.html")]) == 0
    assert "calls of step()" in capsys.readouterr().out
    assert "job" in (tmp_path / "run.html").read_text()


def test_only_the_user_can_open_the_socket_and_the_token_is_needed(run, folder):
    (own,) = folder.iterdir()
    assert stat.S_IMODE(own.stat().st_mode) == 0o700
    assert stat.S_IMODE((own / f"{os.getpid()}.token").stat().st_mode) == 0o600
    for request in (b"\n", b'{"token": "wrong", "want": "state"}\n', b"[1]\n", b"x" * 5000):
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(own / f"{os.getpid()}.sock"))
            client.sendall(request)
            client.shutdown(socket.SHUT_WR)
            with suppress(ConnectionResetError):
                assert client.recv(10) == b""
    assert cudalens.attach().read().facts.name == "job"


def test_a_viewer_that_dies_does_not_matter(run, folder):
    token = (next(folder.iterdir()) / f"{os.getpid()}.token").read_text()
    for _ in range(3):
        client = socket.socket(socket.AF_UNIX)
        client.connect(str(next(folder.iterdir()) / f"{os.getpid()}.sock"))
        client.sendall(json.dumps({"token": token, "want": "trace"}).encode() + b"\n")
        client.close()
    run.step()
    assert cudalens.attach().read().facts.num_steps == run.run.facts.num_steps


def test_off_leaves_no_socket_and_no_thread(folder):
    with cudalens.watch():
        assert link.watched_processes() == [os.getpid()]
    assert link.watched_processes() == []
    assert list(next(folder.iterdir()).iterdir()) == []
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("cudalens")]


def test_the_files_of_a_process_that_was_killed_are_removed_by_the_next_watch(folder):
    killed = subprocess.Popen(["true"])
    killed.wait()
    for suffix in ("sock", "token"):
        (link.runtime_folder() / f"{killed.pid}.{suffix}").touch()
    with cudalens.watch():
        assert {path.stem for path in link.runtime_folder().iterdir()} == {str(os.getpid())}


def test_without_a_watched_process_the_message_says_what_to_do(folder):
    with pytest.raises(cudalens.WatchError, match=r"no process of this user is watched; start one"):
        cudalens.attach()


def test_a_folder_that_others_can_write_to_is_refused(folder):
    shared = link.runtime_folder()
    shared.chmod(0o777)
    with pytest.raises(cudalens.WatchError, match="others cannot read"):
        cudalens.attach()
    with cudalens.watch() as w:
        assert any("no viewer can attach" in note for note in w.run.facts.notes)


@pytest.mark.parametrize(
    "request_line",
    [
        b'{"token": "\\ud800", "want": "state"}\n',
        b"[" * (link.MOST_REQUEST - 1) + b"\n",
        b'{"token": 7, "want": {}}\n',
        b"\xff\xfe\n",
        b"null\n",
    ],
)
def test_a_malformed_request_does_not_end_the_thread_that_answers(run, folder, request_line):
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        client.connect(str(link.runtime_folder() / f"{os.getpid()}.sock"))
        client.sendall(request_line)
        assert client.recv(100) == b""
    assert cudalens.attach(os.getpid()).read().facts.name == "job"
