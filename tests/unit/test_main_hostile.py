"""What the verbs print of a file with hostile texts: escape sequences, controls of direction, endless names."""

import json

import pytest

import cudalens
from cudalens.__main__ import main
from cudalens.views.timeline import payload

HOSTILE = "\x1b]0;owned\x07\x1b[2J\u202eevil\u2066" + "x" * 200_000


def hostile_file(path, rank, factor=1):
    """A trace of three steps in which every text is hostile."""
    events = []
    for step in range(3):
        at = 1000 * step * factor
        common = {"ph": "X", "pid": 1, "tid": HOSTILE}
        events += [
            {**common, "cat": "user_annotation", "name": f"ProfilerStep#{step}", "ts": at, "dur": 900 * factor},
            {**common, "cat": "cpu_op", "name": HOSTILE, "ts": at + 10, "dur": 100, "args": {"External id": 1}},
            {
                "ph": "X", "pid": 0, "tid": 7, "cat": "kernel", "name": HOSTILE, "ts": at + 200, "dur": 500 * factor,
                "args": {"device": 0, "stream": 7, "External id": 1},
            },
            {
                "ph": "X", "pid": 0, "tid": 8, "cat": "kernel", "name": f"ncclDevKernel_AllReduce{HOSTILE}",
                "ts": at + 720, "dur": 100,
                "args": {
                    "device": 0, "stream": 8, "Collective name": f"allreduce{HOSTILE}", "Process Group Name": HOSTILE,
                    "Process Group Ranks": "[0, 1]", "In msg nelems": 4, "dtype": HOSTILE,
                },
            },
        ]  # fmt: skip
    whole = {
        "deviceProperties": [{"id": 0, "name": HOSTILE, "totalGlobalMem": 1 << 30}],
        "distributedInfo": {"backend": HOSTILE, "rank": rank, "world_size": 2, "pg_config": [{"pg_desc": HOSTILE}]},
        "traceName": HOSTILE,
        "traceEvents": events,
    }
    path.write_text(json.dumps(whole))
    return str(path)


@pytest.fixture
def files(tmp_path):
    folder = tmp_path / "job"
    folder.mkdir()
    return [hostile_file(folder / f"rank{rank}.json", rank, rank + 1) for rank in range(2)]


def printed(capsys, *argv):
    main(argv)
    captured = capsys.readouterr()
    return captured.out + captured.err


@pytest.mark.parametrize("verb", ["summary", "brief", "check", "compare", "ranks"])
def test_a_verb_prints_no_control_character_and_no_endless_line(capsys, files, verb):
    folder = files[0].rpartition("/")[0]
    argv = {"compare": files, "ranks": [folder]}.get(verb, files[:1])
    text = printed(capsys, verb, *argv)
    assert text.replace("\n", "").isprintable()
    assert max(map(len, text.splitlines())) <= 2_000
    assert len(text) < 50_000


@pytest.mark.parametrize("verb", ["report", "compare", "ranks"])
def test_a_page_holds_no_control_of_direction(capsys, files, tmp_path, verb):
    folder = files[0].rpartition("/")[0]
    argv = {"compare": files, "ranks": [folder]}.get(verb, files[:1])
    printed(capsys, verb, *argv, "-o", str(tmp_path / "page.html"))
    page = (tmp_path / "page.html").read_text().partition("<script")[0]  # our own scripts have such characters
    assert not set("\x1b\x07\u202e\u2066") & set(page)


def test_an_error_about_a_hostile_file_is_clean(capsys, tmp_path):
    path = tmp_path / "a.json"
    path.write_text(json.dumps({"\x1b[2J\u202e": HOSTILE}))
    text = printed(capsys, "summary", str(path))
    assert text.replace("\n", "").isprintable()
    assert len(text) < 3_000


def test_a_file_with_a_hostile_name_is_named_clean(capsys, tmp_path):
    text = printed(capsys, "summary", str(tmp_path / "\x1b[2J\u202e.json"), str(tmp_path / "b.json"))
    assert text.replace("\n", "").isprintable()


def test_the_live_page_gets_names_without_controls(files):
    """It draws them on a canvas, where an override of direction would act as well."""
    packed = payload.pack(cudalens.load(files[0]), compress=False)
    assert b"ncclDevKernel_AllReduce" in packed
    for control in ("\\u202e", "\\u2066", "\\u001b", "\\u0007"):
        assert control.encode() not in packed
