"""The quickstart runs for real, and its demo script does what it says."""

import re
import runpy
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path

import nbformat
import pytest

import cudalens

ROOT = Path(__file__).parents[2]
NOTEBOOKS = ROOT / "notebooks"
#: How a comparison says that a run is faster, and its interval: per cent, or a factor from 2 on; equal ends once.
FASTER = r"[\d.]+ (?:% faster|times as fast)"
INTERVAL = r"95 % interval [\d.]+ (?:to [\d.]+ )?(?:%|times)"
DEMO, QUICKSTART, RACES = (NOTEBOOKS / name for name in ("run_demo.py", "quickstart.ipynb", "stream-races.ipynb"))


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo") / "out"
    command = [sys.executable, DEMO, "--out", folder]
    return subprocess.run(command, capture_output=True, text=True, cwd=folder.parent), folder


def run_demo(*arguments, script=DEMO):
    """The demo script in this process, which has imported what it needs: its exit code, and what it wrote to stderr."""
    main = runpy.run_path(str(script))["main"]
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(StringIO()), redirect_stderr(StringIO()) as errors:
        patch.setattr(sys, "argv", [str(script), *map(str, arguments)])
        return main(), errors.getvalue()


def test_the_demo_succeeds_quietly(demo):
    done, folder = demo
    assert (done.returncode, done.stderr) == (0, "")
    assert "CPU ops busy" in done.stdout or "busy" in done.stdout
    assert str(folder / "report.html") in done.stdout


def test_it_leaves_what_it_states(demo):
    _, folder = demo
    assert {path.name for path in folder.iterdir()} == {
        "quickstart.ipynb",
        "report.html",
        "steps.cudalens",
        "kernel.log",
    }
    trace = cudalens.load(folder / "steps.cudalens")
    assert trace.info.num_steps == 5
    assert "<html" in (folder / "report.html").read_text()[:200]


def test_every_cell_ran_and_the_profiled_ones_show_a_picture(demo):
    notebook = nbformat.read(demo[1] / "quickstart.ipynb", as_version=4)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    assert not [output for cell in code for output in cell.outputs if output.output_type == "error"]
    for cell in code:
        if cell.source.startswith("%%cudaprofile") and " -q" not in cell.source.splitlines()[0]:
            assert any("image/svg+xml" in output.get("data", {}) for output in cell.outputs)
    assert "widgets" not in notebook.metadata


def test_the_race_notebook_finds_four_bugs_and_sees_them_mended(tmp_path):
    assert run_demo(RACES, "--out", tmp_path) == (0, "")
    notebook = nbformat.read(tmp_path / RACES.name, as_version=4)
    watched = [cell for cell in notebook.cells if cell.source.startswith("%%cudasan")]
    verdicts = [said.partition("] ")[2].splitlines()[0] for said in map(shown_text, watched)]
    assert [verdict[:8].strip(", ") for verdict in verdicts] == ["1 race", "no races"] * 4
    kinds = [said.partition("Race 1: ")[2].partition(" of ")[0] for said in map(shown_text, watched[::2])]
    assert kinds == ["read after write", "use after free", "race with the host", "write after write"]


@pytest.mark.parametrize("bug", range(4))
def test_the_mended_cells_hold_what_the_diffs_suggested(bug):
    notebook = nbformat.read(RACES, as_version=4)
    watched = [cell for cell in notebook.cells if cell.source.startswith("%%cudasan")]
    racy, mended = watched[2 * bug : 2 * bug + 2]
    said = shown_text(racy)
    added = [line.strip()[1:].strip() for line in said.splitlines() if re.match(r" +\+[^+]", line)]
    assert len(added) == 1
    # The notebook calls the current stream by the name that it has there.
    line = added[0].replace("torch.cuda.current_stream()", "main") if "main = " in racy.source else added[0]
    assert line in [line.strip() for line in mended.source.splitlines()]


def shown_text(cell):
    return next(output["data"]["text/plain"] for output in cell.outputs if "text/plain" in output.get("data", {}))


def test_the_demo_reports_when_a_cell_fails(tmp_path):
    notebook = nbformat.read(QUICKSTART, as_version=4)
    notebook.cells = [nbformat.v4.new_code_cell("raise ValueError('on purpose')")]
    nbformat.write(notebook, tmp_path / "quickstart.ipynb")
    script = tmp_path / "run_demo.py"
    script.write_text(DEMO.read_text())
    code, said = run_demo("--out", tmp_path / "out", script=script)
    assert code == 1
    assert "on purpose" in said


class TestCommitted:
    """The committed notebooks are small, clean and independent of the machine."""

    @pytest.fixture(params=sorted(NOTEBOOKS.glob("*.ipynb")), ids=lambda path: path.stem)
    def path(self, request):
        return request.param

    @pytest.fixture
    def notebook(self, path):
        return nbformat.read(path, as_version=4)

    def test_it_is_valid_and_small(self, path, notebook):
        nbformat.validate(notebook)
        assert path.stat().st_size < (1_500_000 if path.name == "find-the-bottleneck.ipynb" else 300_000)

    def test_it_carries_nothing_of_the_machine(self, path, notebook):
        text = path.read_text()
        assert "widget-view" not in text
        assert "widgets" not in notebook.metadata
        assert not re.search(r"/(home|root|work|tmp|Users)/", text)
        assert not [
            output for cell in notebook.cells for output in cell.get("outputs", ()) if output.get("name") == "stderr"
        ]

    def test_it_says_what_it_does_before_it_does_it(self, notebook):
        assert notebook.cells[0].cell_type == "markdown"
        assert notebook.cells[0].source.startswith("# ")


def stays(output):
    """Whether it is neither from stderr nor a widget, of a progress bar say."""
    return output.get("name") != "stderr" and not any("widget-view" in kind for kind in output.get("data", {}))


def shown(output):
    return output.get("text") or output.get("data", {}).get("text/plain", "")


def executed(name, folder):
    """A notebook, run for real: its code cells, and what each showed as text."""
    assert run_demo(NOTEBOOKS / name, "--out", folder) == (0, "")
    notebook = nbformat.read(folder / name, as_version=4)
    return [
        (cell.source, "\n".join(map(shown, filter(stays, cell.outputs))))
        for cell in notebook.cells
        if cell.cell_type == "code"
    ]


def test_the_graph_notebook_goes_from_a_skip_to_replays_and_branches(tmp_path):
    cells = executed("cuda-graphs.ipynb", tmp_path)
    trees = [shown for source, shown in cells if source.startswith(("%cudagraph tree", "%%cudaprofile graphs"))]
    skipped, replayed, branched = trees
    assert "decode writes its input 'cache'" in skipped
    assert "1 graph, replayed 22 of 24 calls" in replayed
    assert "replay equals eager" in replayed
    assert "decode → likeliest" in branched
    assert "decode → sharpened" in branched
    kept = next(shown for source, shown in cells if source.startswith("kept, token"))
    assert "a later step has overwritten it" in kept
    assert (tmp_path / "cuda-graphs.html").stat().st_size > 10_000

    *_, waiting, counting = [shown for source, shown in cells if source == "%cudagraph explain"]
    for explained in (waiting, counting):
        assert "+ cudalens.graphs.capturable(optimizer)" in explained
    (functions,) = [shown for source, shown in cells if source == "%cudagraph list"]
    assert re.search(r"train +12 +10 +1 +1 +0 +1 +recorded", functions)


def test_the_memory_notebook_names_the_leak_and_mends_the_fragmentation(tmp_path):
    cells = executed("memory.ipynb", tmp_path)
    leaks = [shown for source, shown in cells if source.startswith(("seen = []", "for _ in range"))]
    assert all("10 tensors held by `seen`" in shown for shown in leaks)
    assert "`seen`" not in next(shown for source, shown in cells if source.startswith("seen.clear()"))
    fragmented = next(shown for source, shown in cells if source.startswith("%%cudamem fragmented"))
    assert "out of memory at In[" in fragmented
    assert "5.49 GiB of the reserved 11.1 GiB unused (the largest piece 106 MiB)" in fragmented
    assert "with PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True the free memory is enough" in fragmented
    assert "out of memory" not in next(shown for source, shown in cells if source.startswith("%%cudamem expandable"))
    assert "+5.37 GiB" in cells[-1][1]


def test_the_bottleneck_notebook_names_the_cause_and_proves_each_fix(tmp_path):
    cells = executed("find-the-bottleneck.ipynb", tmp_path)
    verdicts = {source.split()[1]: shown for source, shown in cells if source.startswith("%%cudaprofile")}
    assert "lost to launch overhead" in verdicts["slow"].splitlines()[0]
    assert "unfused optimizer steps" in verdicts["slow"]
    assert "unfused optimizer steps" not in verdicts["fused"]
    assert "waiting for the GPU: item at" in verdicts["fused"]
    assert "waiting for the GPU: item at" not in verdicts["no-waits"]
    assert "pageable copies" in verdicts["no-waits"]
    assert "pageable copies" not in verdicts["pinned"]
    diffs = {
        source.split()[-1]: shown.splitlines()[0] for source, shown in cells if source.startswith("%cudaprofile diff")
    }
    # What pays is faster by a band that does not hold 0; what does not pay is no change.
    for name in ("fused", "no-waits", "pinned", "attention", "graph", "fast"):
        assert re.search(rf"\] {name} is {FASTER} \(.* a step(, {INTERVAL})?\)", diffs[name])
    assert "] no change: " in diffs["tf32"]
    refused = next(shown for source, shown in cells if "slow.check(" in source)
    assert "2 of 2 assertions do not hold on 'slow'" in refused


def test_the_files_notebook_gives_the_same_kernels_from_every_file(tmp_path):
    cells = executed("your-traces.ipynb", tmp_path)
    opened = next(shown for source, shown in cells if source.startswith("def facts"))
    rows = {line.split()[1]: line.split()[2:] for line in opened.splitlines()[1:]}
    assert rows["cpu.json"][:3] == ["file:kineto", "clean", "0"]
    assert rows["gpu.cudalens"][1:] == rows["gpu.json.gz"][1:] == rows["gpu.sqlite"][1:]
    kernels = int(rows["gpu.sqlite"][2])
    assert kernels > 100
    trusted = next(shown for source, shown in cells if source.startswith("def damaged"))
    verdicts = re.findall(r"^(\S+\.sqlite): (clean|repaired|partial):", trusted, re.MULTILINE)
    assert verdicts == [("gpu.sqlite", "clean"), ("early.sqlite", "repaired"), ("lost.sqlite", "partial")]
    broken = next(shown for source, shown in cells if source.startswith("def cut"))
    said = ["partial: the gzip data stop before their end", "cut short: copy or export it again"]
    said += ["nsys export --type sqlite report.nsys-rep", "notes.json, byte 0", "asks for builtins.print"]
    assert [text for text in said if text not in broken] == []
    assert "this ran inside of you" not in broken
    ranks = next(shown for source, shown in cells if "rest = cudalens.load_ranks" in source)
    assert "1 x rank without a file: rank 1 of 3" in ranks
    assert "'rank-3.json.gz'" in ranks
    changed = next(shown for source, shown in cells if "changed = cudalens.compare" in source)
    assert re.match(rf"\[simulated: h100\] fused is {FASTER} \(.* {INTERVAL}\)", changed)
    shell = next(shown for source, shown in cells if source.startswith("def shell"))
    assert "(exit code 1)" in shell
    assert "Wrote report.html" in shell
    out = next(shown for source, shown in cells if source.startswith("def is_kernel"))
    assert out.count(f": {kernels}") == 6
    snapshot = next(shown for source, shown in cells if "_dump_snapshot" in source)
    assert "768 MiB left" in snapshot


def test_the_notebook_of_a_virtual_cluster_answers_each_question(tmp_path):
    cells = executed("virtual-cluster.ipynb", tmp_path)
    answer = next(shown for source, shown in cells if "job.summary()" in source)
    assert re.match(r"\[simulated\] A step takes [\d.]+ ms ± \d+ % on 64 GPUs", answer)
    assert re.search(r"is the fastest layout that fits on h100x16: [\d.]+ ms", "".join(shown for _, shown in cells))
    slow = next(shown for source, shown in cells if "slow.summary()" in source)
    assert "the links of node 1 are 4 times slower: the job loses" in slow
    assert "rank 5 is 1.3 times slower: the job loses" in slow
    error = next(shown for source, shown in cells if "forgets_a_collective" in source)
    assert "the job hangs" in error
    assert "rank 0 at In[8]:7 waits in all_reduce" in error
    assert "all_reduce(1 x Float, sum) at In[8]:5" in error
    assert cells[-1][1] == "tensor([1.5000, 2.5000, 3.5000, 4.5000])"


def test_the_notebook_of_memory_needs_says_where_the_model_fits_and_the_promised_change_holds(tmp_path):
    cells = executed("will-it-fit.ipynb", tmp_path)
    answer = next(shown for source, shown in cells if source.startswith("found = cudalens.fit"))
    fits = r"\[simulated\] A batch of 24 fits on 1 of 2 devices: h100 \(up to \d+\)\."
    assert re.match(f"{fits} On l4 it fits with: checkpoint the blocks", answer)
    assert "In[2]:43 (return loss.item()) got 0" in " ".join(answer.split())
    promised = next(shown for source, shown in cells if "class Checkpointed" in source)
    needs, saved = re.search(r"needs ([\d.]+) GiB, promised ([\d.]+) GiB", promised).groups()
    assert needs == saved
    memory = next(shown for source, shown in cells if source.startswith("%%cudamem"))
    assert re.search(r"\[simulated: l4\] peak [\d.]+ GiB \(allocated\) at In\[2\]:\d+", memory)
    others = next(shown for source, shown in cells if "batch_of_four" in source)
    assert "The program fits on 4 of 4 devices" in others
    assert re.search(r"h20 .*uncalibrated", others)


def test_the_notebook_of_many_ranks_names_the_rank_with_the_larger_batches(tmp_path):
    cells = executed("many-ranks.ipynb", tmp_path)
    answer = next(shown for source, shown in cells if "ranks.summary()" in source)
    assert re.match(
        r"rank 1 (is \d+ % slower in aten::\w+|takes [\d.]+ times as long in aten::\w+|is slower in most operators)",
        answer,
    )
    assert "the job loses" in answer
    slow = next(shown for source, shown in cells if source.startswith("slow = "))
    assert slow.startswith("(1, 'aten::")
    window = next(shown for source, shown in cells if "ranks.window" in source)
    assert "gloo:all_reduce" in window
    assert (tmp_path / "many-ranks.html").stat().st_size > 10_000
