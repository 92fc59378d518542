"""`%%cudamem` and `%cudamem` in a real shell, on a virtual device."""

from __future__ import annotations

import gc

import pytest
import torch
from shell_state import state_of

import cudalens
import cudalens.virtual as virtual

MODEL = """
model = torch.nn.Sequential(torch.nn.Linear(512, 512), torch.nn.ReLU(), torch.nn.Linear(512, 512)).cuda()
x = torch.ones(256, 512, device="cuda")
"""
LEAK = """
history = []
for _ in range(4):
    loss = model(x).square().sum()
    history.append(loss)
"""
OOM = """
def fill(k):
    local = torch.zeros(k, device="cuda")
    return local, torch.zeros(200 << 30, dtype=torch.uint8, device="cuda")
fill(1 << 20)
"""


@pytest.fixture
def cuda(notebook):
    gc.collect()
    notebook.run("%cudadevice virtual h100")
    notebook.capsys.readouterr()
    yield notebook
    notebook.run("%cudamem leaks off")
    if (on := virtual.active()) is not None:
        on.disable()


def printed(book):
    return book.capsys.readouterr().out


def shown(book):
    return next(data["text/plain"] for kind, data in book.shown if kind == "display")


def output(book):
    """What the cell printed, and the text of what it displayed."""
    return printed(book) + "".join(data["text/plain"] for kind, data in book.shown if kind == "display")


def verdict(book):
    return shown(book).split("\n")[0]


def history_is_on():
    return torch._C._cuda_isHistoryEnabled()


def number_of(book):
    """The n of In[n] of the cell that ran last."""
    return book.shell.execution_count - 1


def test_a_cell_reports_its_peak_with_its_line_and_what_it_left(cuda):
    cuda.run(MODEL)
    assert cuda.run(f"%%cudamem -v t\nbig = torch.zeros(16 << 20, device='cuda')\ndel big{LEAK}").success
    line = verdict(cuda)
    assert line.startswith("[simulated: h100] peak ")
    assert f"(allocated) at In[{number_of(cuda)}]:" in line
    assert "held by `history`" in line
    assert "fragmentation" not in line  # less than a few segments
    trace = cuda["t"]
    assert cudalens.runs[f"cell-{number_of(cuda)}"] is trace
    assert set(trace.blocks["cell"].dropna()) == {f"In[{number_of(cuda)}]"}
    assert not history_is_on()


def test_the_cell_stays_the_users(cuda):
    assert cuda.run("%%cudamem\nimport asyncio\nawait asyncio.sleep(0)\n1 + 1").success
    assert cuda.text("out") == "2"
    result = cuda.run("%%cudamem\nraise KeyError('mine')")
    assert isinstance(result.error_in_exec, KeyError)
    assert cuda.kinds() == ["display", "error"]
    assert not history_is_on()


def test_the_value_of_the_cell_is_called_out(cuda):
    cuda.run("%%cudamem -v t\ntorch.zeros(1 << 20, device='cuda')")
    assert list(cuda["t"].blocks["names"].dropna()) == [f'["Out[{number_of(cuda)}]"]']


def test_output_quiet_and_files(cuda, tmp_path):
    cuda.run("%%cudamem mine -o\nx = torch.zeros(1 << 20, device='cuda')")
    assert "held by `x`" in cuda.text("out")
    cuda.run("%%cudamem -q\ny = torch.zeros(1 << 20, device='cuda')")
    assert cuda.shown == []
    cuda.run(f"%%cudamem --save {tmp_path}/m.cudalens --html {tmp_path}/m.html\nz = x + 1")
    assert cudalens.load(tmp_path / "m.cudalens").blocks.equals(cudalens.runs.last.blocks)
    assert "<script" in (tmp_path / "m.html").read_text()
    assert "mine" in cudalens.runs


def test_out_of_memory_shows_who_holds_it_then_reraises(cuda):
    cuda.run(MODEL + LEAK)
    result = cuda.run(f"%%cudamem -q{OOM}")
    assert isinstance(result.error_in_exec, torch.OutOfMemoryError)
    assert cuda.kinds() == ["display", "error"]
    line = verdict(cuda)
    assert f"out of memory at In[{number_of(cuda)}]:4: 200 GiB asked for" in line
    assert "`fill.local`" in shown(cuda)
    assert "`history`" in shown(cuda)
    assert not history_is_on()


def test_out_of_memory_in_a_followed_cell_shows_who_holds_it(cuda):
    cuda.run("%cudamem leaks on")
    cuda.run(MODEL + LEAK)
    result = cuda.run(OOM)
    assert isinstance(result.error_in_exec, torch.OutOfMemoryError)
    assert cuda.kinds() == ["error", "display"]
    assert "out of memory: 200.00 GiB asked for" in verdict(cuda)
    assert "`history`" in shown(cuda)
    cuda.run(f"%%cudamem{OOM}")
    assert cuda.kinds() == ["display", "error"]  # once, not once more by the one that follows


def test_a_leak_across_cells_is_found_by_name(cuda):
    cuda.run("%cudamem leaks on")
    cuda.run(MODEL)
    printed(cuda)
    cuda.run("history = []")
    assert printed(cuda) == ""
    for _ in range(2):
        cuda.run("loss = model(x).square().sum(); history.append(loss)")
    cell, text = number_of(cuda), printed(cuda).splitlines()
    assert len(text) == 2
    assert text[-1].startswith(f"In[{cell}] left 1.")
    assert "held by `history[1]`" in text[-1]
    cuda.run("%cudamem leaks")
    report = printed(cuda).splitlines()
    assert any(line.startswith(f"In[{cell}] left ") and "`history" in line for line in report)
    assert any("by `model`" in line for line in report)
    cuda.run("del history, loss")
    assert "it freed" in printed(cuda)
    cuda.run("%cudamem leaks")
    assert "history" not in printed(cuda)


def test_leaks_name_outputs_and_never_underscores(cuda):
    cuda.run("%cudamem leaks on")
    printed(cuda)
    cuda.run("torch.zeros(1 << 20, device='cuda')")
    assert f"held by `Out[{number_of(cuda)}]`" in printed(cuda)


def test_a_quiet_watch_reports_only_when_asked(cuda):
    cuda.run("%cudamem leaks on -q")
    printed(cuda)
    cuda.run("x = torch.zeros(1 << 20, device='cuda')")
    assert printed(cuda) == ""
    cuda.run("%cudamem leaks")
    assert "held by `x`" in printed(cuda)
    cuda.run("%cudamem leaks clear")
    printed(cuda)
    cuda.run("%cudamem leaks")
    assert "No cell left anything" in printed(cuda)


def test_without_a_watch_leaks_lists_what_variables_hold(cuda):
    cuda.run("x = torch.zeros(1 << 20, device='cuda')")
    cuda.run("%cudamem leaks")
    text = printed(cuda)
    assert "%cudamem leaks on" in text
    assert "`x`" in text


def test_off_leaves_no_hook_and_keeps_nothing(cuda):
    before = state_of(cuda.shell)
    cuda.run("%cudamem leaks on")
    cuda.run("x = torch.zeros(1 << 20, device='cuda')")
    cuda.run("%cudamem leaks off")
    assert state_of(cuda.shell) == before
    cuda.run("del x")
    assert torch.cuda.memory_allocated() == 0
    printed(cuda)
    cuda.run("y = torch.zeros(1 << 20, device='cuda')")
    assert printed(cuda) == ""
    assert not history_is_on()


def test_unloading_ends_the_watch(cuda):
    cuda.run("%cudamem leaks on")
    cuda.shell.run_line_magic("unload_ext", "cudalens")
    assert not [name for name, calls in cuda.shell.events.callbacks.items() if "cudalens" in str(calls)]
    cuda.shell.run_line_magic("load_ext", "cudalens")


@pytest.mark.parametrize("magic", ["%cudadevice off", "%unload_ext cudalens"])
def test_a_cell_that_ends_the_device_explains_why_nothing_is_shown(cuda, magic):
    assert cuda.run(f"%%cudamem\n{magic}\nz = 3").success
    assert cuda["z"] == 3
    captured = cuda.capsys.readouterr()
    assert "the virtual device ended before its memory could be examined" in captured.out + captured.err
    cuda.shell.extension_manager.load_extension("cudalens")
    cuda.run("%cudadevice virtual h100")
    assert cuda.run("%%cudamem -v t\ny = torch.zeros(1 << 20, device='cuda')").success
    assert len(cuda["t"].blocks.query("state == 'active_allocated'")) == 1
    assert not history_is_on()


def test_two_snapshots_differ_by_stack_category_and_holder(cuda):
    cuda.run(MODEL)
    cuda.run("%%cudamem before -q\nx = x + 1")
    cuda.run(f"%%cudamem after -q{LEAK}")
    printed(cuda)
    cuda.run("%cudamem diff before after")
    text = output(cuda)
    assert text.startswith("+")
    assert "from before (" in text
    assert f"In[{number_of(cuda) - 1}]:" in text
    cuda.run("%cudamem diff before after --by category")
    assert "activation" in output(cuda)
    cuda.run("%cudamem diff before after --by holder")
    assert "`history`" in output(cuda)


def test_diff_takes_runs_variables_and_files(cuda, tmp_path):
    cuda.run(f"%cudamem snapshot first -v a --save {tmp_path}/a.cudalens")
    cuda.run("x = torch.zeros(1 << 20, device='cuda')")
    cuda.run("%cudamem snapshot second -v b")
    printed(cuda)
    for first in ("first", "a", f"{tmp_path}/a.cudalens"):
        cuda.run(f"%cudamem diff {first} b")
        assert "+4.00 MiB" in output(cuda)


def test_diff_of_one_snapshot_is_against_now(cuda):
    cuda.run("%cudamem snapshot before")
    cuda.run("x = torch.zeros(3 << 20, device='cuda')")
    printed(cuda)
    cuda.run("%cudamem diff before")
    assert "+12.0 MiB" in output(cuda)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("%cudamem nonsense", "what is 'nonsense'"),
        ("%cudamem diff", "one or two snapshots"),
        ("%cudamem diff a b c", "one or two snapshots"),
        ("%cudamem diff a b", "'a' is not a run"),
        ("%cudamem diff a b --by colour", "--by: 'colour': expected one of stack"),
        ("%cudamem leaks maybe", "Expected one of on, off"),
        ("%cudamem snapshot a b", "unrecognized arguments: b"),
        ("%%cudamem --max-entries 0\n1", "at least 1"),
        ("%%cudamem --html /nowhere/x.html\n1", "Nothing has run"),
    ],
)
def test_bad_input_states_what_is_expected(cuda, line, said):
    cuda.run(line)
    assert said in cuda.text("usage") + cuda.text("error")
    assert not history_is_on()


def test_without_a_device_it_states_what_to_do(notebook):
    if torch.cuda.is_available():
        pytest.skip("there is a CUDA device")
    for cell in ("%cudamem snapshot", "%cudamem leaks on", "%%cudamem\nran = True"):
        notebook.run(cell)
        assert "%cudadevice virtual h100" in notebook.text("error")
    assert "ran" not in notebook.shell.user_ns


def test_inside_and_outside_of_a_profile(cuda):
    assert cuda.run("%%cudaprofile -v p\n%%cudamem -v t\nx = torch.zeros(1 << 20, device='cuda') + 1").success
    assert not cuda["p"].events.empty
    assert not cuda["t"].blocks.empty
    assert cuda.run("%%cudamem -v t\n%%cudaprofile -v p\ny = torch.zeros(1 << 20, device='cuda') + 1").success
    assert not cuda["p"].events.empty
    assert "`y`" in str(cuda["t"].summary())


def test_fragmentation_is_seen_and_cured(cuda):
    cuda.run("blocks = [torch.zeros(1 << 20, device='cuda') for _ in range(40)]; blocks = blocks[::2]")
    cuda.run("%cudamem snapshot broken -q")
    cuda.run("blocks = [b.cpu() for b in blocks]; torch.cuda.empty_cache(); blocks = [b.cuda() for b in blocks]")
    cuda.run("%cudamem snapshot cured -q")
    broken, cured = (cudalens.analysis.fragmentation(cudalens.runs[name]).iloc[0] for name in ("broken", "cured"))
    assert broken["fragmentation_pct"] > 25
    assert cured["fragmentation_pct"] < 5


def test_a_device_that_holds_nothing_is_reported_as_such(cuda):
    cuda.run("%cudamem snapshot")
    assert "0 B allocated" in verdict(cuda)
