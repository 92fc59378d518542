"""`%cudasan` and `%%cudasan` in a real shell, on a virtual device: four classic bugs, and cells that are clean."""

from __future__ import annotations

import gc

import pytest

import cudalens.virtual as virtual
from cudalens.sanitizer import running

SETUP = """
%cudadevice virtual h100
side = torch.cuda.Stream()
x = torch.ones(1 << 20, device="cuda")
torch.cuda.synchronize()
"""
RACY = """
with torch.cuda.stream(side):
    y = x * 2
z = y + 1
"""
CLEAN = """
with torch.cuda.stream(side):
    y = x * 2
torch.cuda.current_stream().wait_stream(side)
z = y + 1
y.record_stream(torch.cuda.current_stream())
"""


@pytest.fixture
def cuda(notebook):
    notebook.run(SETUP)
    notebook.capsys.readouterr()
    yield notebook
    notebook.run("%cudasan off")
    if (on := virtual.active()) is not None:
        on.disable()


def races(book, name="t"):
    return book[name].races


def test_a_cell_with_a_race_shows_it_with_its_lines(cuda):
    assert cuda.run(f"%%cudasan -v t{RACY}").success
    found = races(cuda)
    assert list(found["kind"]) == ["read after write"]
    # The magic's own line is the first of the cell.
    assert list(found["first_place"].str[-2:]) == [":3"]
    assert list(found["second_place"].str[-2:]) == [":4"]
    assert "1 race" in cuda.shown[-1][1]["text/plain"]
    assert running() == []


def test_streams_are_called_as_the_notebook_calls_them(cuda):
    cuda.run(f"%%cudasan -v t{RACY}")
    assert list(races(cuda)["first_stream_name"]) == ["stream side"]
    assert list(races(cuda)["second_stream_name"]) == ["the default stream"]
    assert "stream side" in cuda.shown[-1][1]["text/plain"]
    assert "0x" not in cuda.shown[-1][1]["text/plain"]


def test_a_clean_cell_reports_it_and_quietly_states_nothing(cuda):
    cuda.run(f"%%cudasan -v t{CLEAN}")
    assert races(cuda).empty
    assert "no race" in cuda.shown[-1][1]["text/plain"]
    cuda.run(f"%%cudasan -q{CLEAN}")
    assert cuda.shown == []


def test_the_cell_stays_the_users(cuda):
    assert cuda.run(f"%%cudasan\nimport asyncio\nawait asyncio.sleep(0){RACY}z.sum().item()").success
    assert cuda.text("out") == str(3.0 * (1 << 20))
    result = cuda.run(f"%%cudasan{RACY}raise KeyError('mine')")
    assert isinstance(result.error_in_exec, KeyError)
    assert cuda.kinds() == ["display", "error"]
    assert running() == []


def test_on_watches_the_cells_that_follow_and_shows_each_race_once(cuda):
    cuda.run("%cudasan on")
    cuda.run(RACY)
    assert "1 race" in cuda.shown[-1][1]["text/plain"]
    cuda.run("1 + 1")
    assert cuda.kinds() == ["out"]
    cuda.run(CLEAN)
    assert "display" not in cuda.kinds()
    cuda.run("%cudasan status")
    assert "on" in cuda.capsys.readouterr().out
    cuda.run("%cudasan report")
    assert "1 race" in cuda.shown[-1][1]["text/plain"]
    cuda.run("%cudasan clear")
    cuda.run("%cudasan report")
    assert "no race" in cuda.shown[-1][1]["text/plain"]
    cuda.run("%cudasan off")
    assert running() == []
    cuda.run(RACY)
    assert "display" not in cuda.kinds()


def test_it_watches_across_cells(cuda):
    cuda.run("%cudasan on")
    cuda.run("with torch.cuda.stream(side):\n    y = x * 2")
    assert cuda.kinds() == []
    cuda.run("z = y + 1")
    assert "read after write" in cuda.shown[-1][1]["text/plain"]


def test_raise_stops_the_cell_at_the_race(cuda):
    result = cuda.run(f"%%cudasan --on-race raise{RACY}reached = True")
    assert type(result.error_in_exec).__name__ == "RaceError"
    assert "reached" not in cuda.shell.user_ns


def test_detectors_and_suppressions(cuda):
    cuda.run(f"%%cudasan -v t --detect use_after_free{RACY}")
    assert races(cuda).empty
    cuda.run(f"%%cudasan -v t --suppress 'aten::add*'{RACY}")
    assert races(cuda).empty


def test_a_suppression_that_matches_nothing_is_named_once_at_the_end(cuda):
    cuda.run(f"%%cudasan -v t --suppress 'aten::ad' --suppress 'In[{cuda.shell.execution_count}]:*'  # that cell{RACY}")
    assert races(cuda).empty
    assert cuda.capsys.readouterr().err == "%%cudasan: these suppressions match no race: 'aten::ad'\n"
    cuda.run("%cudasan on --suppress 'aten::ad'  # a comment")
    cuda.run(RACY)
    assert cuda.capsys.readouterr().err == ""
    cuda.run("%cudasan off  # another")
    assert cuda.capsys.readouterr().err.count("these suppressions match no race: 'aten::ad'") == 1


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("%cudasan yes", "what is 'yes'"),
        ("%cudasan on --detect nonsense", "unknown detector 'nonsense'"),
        ("%cudasan on --on-race shout", "invalid value for on_race: 'shout'"),
        ("%cudasan on --stack-depth 0", "at least 1"),
    ],
)
def test_bad_input_states_what_is_expected(cuda, line, said):
    cuda.run(line)
    assert said in cuda.text("usage") + cuda.text("error")
    assert running() == []


def test_with_a_profile_in_one_cell(cuda):
    assert cuda.run(f"%%cudasan -v t\n%%cudaprofile -v p{RACY}").success
    assert len(races(cuda)) == 1
    assert (cuda["p"].events["cat"] == "kernel").any()
    assert list(cuda["p"].races["second_place"]) == list(races(cuda)["second_place"])
    assert cuda["p"].races["ts"].between(cuda["p"].info.started_ns, cuda["p"].info.ended_ns).all()
    assert cuda.run(f"%%cudaprofile -v p\n%%cudasan -v t{RACY}").success
    assert len(races(cuda)) == 1


def test_a_profile_under_the_watch_shows_the_races_once(cuda):
    cuda.run("%cudasan on")
    cells = [f"%%cudaprofile{RACY}", RACY.replace("* 2", "* 3"), f"%%cudaprofile -q{RACY.replace('* 2', '* 4')}"]
    for cell in cells:
        assert cuda.run(cell).success
        assert ["race" in bundle["text/plain"] for _, bundle in cuda.shown] == [True], cell


def test_a_profile_keeps_its_own_stacks_beside_the_races(cuda):
    cuda.run("%cudasan on")
    assert cuda.run(f"%%cudaprofile -v p --stacks{RACY}").success
    trace = cuda["p"]
    innermost = trace.stacks[trace.stacks["position"] == 0].set_index("stack")
    assert innermost.loc[trace.races["second_stack"].iloc[0], "line"] == 4
    assert trace.events["stack"].dropna().isin(innermost.index).all()
    assert trace.info.judged.num_operations > 0


def test_the_report_is_written(cuda, tmp_path):
    cuda.run(f"%%cudasan --html {tmp_path}/races.html{RACY}")
    assert "read after write" in (tmp_path / "races.html").read_text()


def test_what_was_watched_from_cell_to_cell_is_written_at_its_end(cuda, tmp_path):
    cuda.run(f"%cudasan on --html {tmp_path}/all.html")
    cuda.run(RACY)
    assert not (tmp_path / "all.html").exists()
    cuda.run("%cudasan off")
    assert "read after write" in (tmp_path / "all.html").read_text()


def test_unloading_ends_it(cuda):
    cuda.run("%cudasan on")
    cuda.shell.run_line_magic("unload_ext", "cudalens")
    assert running() == []


def test_switching_it_on_and_off_leaves_nothing(cuda):
    cuda.run("%cudasan on\n%cudasan off")
    gc.collect()
    callbacks = {name: len(found) for name, found in cuda.shell.events.callbacks.items()}
    for _ in range(20):
        cuda.run("%cudasan on")
        cuda.run("%cudasan off")
    assert {name: len(found) for name, found in cuda.shell.events.callbacks.items()} == callbacks
    assert running() == []


def test_running_all_cells_again_shows_no_race_with_the_device_before(cuda):
    """Each run replaces the virtual device, and tensors of the one before are still in variables."""
    cells = [
        "%cudadevice virtual h100",
        'model = torch.nn.Linear(1024, 1024).cuda()\nmodel(torch.ones(2, 1024, device="cuda")).sum().backward()',
        'side = torch.cuda.Stream()\nwith torch.cuda.stream(side):\n    late = torch.ones(1024, 1024, device="cuda")',
    ]
    cuda.run("%cudasan on")
    for cell in [cells[0], cells[2], *cells, *cells]:
        assert cuda.run(cell).success
    (san,) = running()
    assert san.races == []
    (left, *_) = cuda.capsys.readouterr().out.rpartition(" are CPU tensors from now on: ")[2].splitlines()
    assert "late" in left
    assert "model" in left
