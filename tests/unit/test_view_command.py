"""`cudalens view`: the page of a trace at an address that only its reader has, on a machine without torch."""

import http.client
import signal
import socket
import subprocess
import sys
from urllib.parse import urlsplit

import pytest

from cudalens.__main__ import main

_PROGRAM = """
import sys
sys.modules["torch"] = None  # an import of it fails
from cudalens.__main__ import main
sys.exit(main(["view", sys.argv[1], "--no-browser"]))
"""


@pytest.fixture(scope="module")
def viewer(tmp_path_factory):
    trace = tmp_path_factory.mktemp("view") / "t.json"
    trace.write_text('[{"ph": "X", "name": "load <b>", "ts": 1, "dur": 5, "pid": 1, "tid": 1}]')
    process = subprocess.Popen(
        [sys.executable, "-c", _PROGRAM, str(trace)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    line = process.stdout.readline()
    yield process, urlsplit(next(word for word in line.split() if word.startswith("http")))
    process.kill()
    process.communicate()


def answer(address, path, method="GET", **headers):
    connection = http.client.HTTPConnection(address.hostname, address.port, timeout=10)
    connection.request(method, path, headers=headers)
    response = connection.getresponse()
    text = response.read().decode()
    connection.close()
    return response, text


def test_the_page_is_the_report(viewer):
    _, address = viewer
    response, text = answer(address, address.path)
    assert response.status == 200
    assert response.headers["Content-Type"] == "text/html; charset=utf-8"
    assert "load &lt;b&gt;" in text
    assert 'id="cudalens-payload"' in text
    response, text = answer(address, address.path, "HEAD")
    assert (response.status, text) == (200, "")


@pytest.mark.parametrize("path", ["/", "/wrong/", "//", "/%C3%A9/", "/../etc/passwd"])
def test_another_path_is_not_found(viewer, path):
    _, address = viewer
    response, text = answer(address, path)
    assert response.status == 404
    assert "load" not in text


def test_the_name_of_another_site_is_refused(viewer):
    _, address = viewer
    response, _ = answer(address, address.path, Host=f"attacker.example:{address.port}")
    assert response.status == 404


def test_it_listens_on_this_machine_alone(viewer):
    _, address = viewer
    assert address.hostname == "127.0.0.1"
    with pytest.raises(OSError, match="refused"), socket.create_connection(("127.0.0.2", address.port), timeout=5):
        pass


def test_a_port_in_use_is_refused(viewer, tmp_path, capsys):
    _, address = viewer
    trace = tmp_path / "t.json"
    trace.write_text('[{"ph": "X", "name": "load", "ts": 1, "dur": 5, "pid": 1, "tid": 1}]')
    assert main(["view", str(trace), "--no-browser", "--port", str(address.port)]) == 3
    assert f"cannot listen on port {address.port} of 127.0.0.1" in capsys.readouterr().err


def test_ctrl_c_ends_it_without_an_error(viewer):  # the last test: the server has ended after it
    process, _ = viewer
    process.send_signal(signal.SIGINT)
    assert process.wait(10) == 0
    assert process.stderr.read() == ""
