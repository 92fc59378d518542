"""`cudalens.watch` around real loops: steps, recordings, the same results as without, nothing left behind."""

import gc
import os
import threading
import time

import pytest
import torch
from planted_loops import work
from torch import nn
from torch.autograd import profiler as torch_profiler
from torch.nn.modules import module as modules
from torch.optim import optimizer as optimizers
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.dataloader import _BaseDataLoaderIter

import cudalens
from cudalens.api.watch import active
from cudalens.profiler import ProfilerCollector


class Training:
    """A small training loop with values that depend on the random state."""

    def __init__(self):
        torch.manual_seed(3)
        self.model = nn.Sequential(nn.Linear(8, 16), nn.Dropout(0.5), nn.Linear(16, 1))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.loader = DataLoader(TensorDataset(torch.randn(80, 8)), batch_size=2, shuffle=True)

    def batch(self, x):
        self.optimizer.zero_grad()
        self.model(x).square().mean().backward()
        self.optimizer.step()

    def run(self):
        for (x,) in self.loader:
            self.batch(x)
        return torch.cat([parameter.detach().reshape(-1) for parameter in self.model.parameters()])


def hooks():
    return (
        len(optimizers._global_optimizer_post_hooks),
        len(modules._global_forward_pre_hooks),
        _BaseDataLoaderIter.__next__,
        torch_profiler._prepare_profiler,
        torch_profiler._run_on_profiler_start,
    )


def files_and_threads():
    gc.collect()
    return len(os.listdir("/proc/self/fd")), {thread.name for thread in threading.enumerate()}


@pytest.fixture(scope="module")
def trained():
    """A watched loop with what was before, and the plain loop's result."""
    plain = Training().run()
    before = hooks(), files_and_threads()
    with cudalens.watch("train", budget=0.5) as w:
        found = Training().run()
    return w, plain, found, before


def test_the_result_is_bit_identical(trained):
    _, plain, found, _ = trained
    assert torch.equal(plain, found)


def test_nothing_is_left_behind(trained):
    _, _, _, (hooks_before, (num_files, threads)) = trained
    assert hooks() == hooks_before
    now_files, now_threads = files_and_threads()
    assert now_threads == threads
    assert now_files <= num_files
    assert active() is None
    assert not torch.autograd._profiler_enabled()


def test_each_step_of_the_optimizer_is_a_step(trained):
    w = trained[0]
    assert w.run.facts.source == "optimizer"
    steps = w.steps
    assert steps["step"].tolist() == list(range(40))
    assert (steps["dur"] > 0).all()
    assert (steps["elements"] == 16).all()
    assert (steps["data_ns"] > 0).all()


def test_a_recording_has_the_operators_of_its_steps(trained):
    (first, *_) = trained[0].traces
    assert {"aten::linear", "Optimizer.step#SGD.step"} <= set(first.events["name"])
    recording = trained[0].run.recordings[0]
    steps = first.events["step"].dropna().unique().tolist()
    assert steps == list(range(recording.step, recording.step + recording.num_steps))
    ranges = first.events[first.events["name"].astype(str).str.startswith("ProfilerStep#")]
    assert sum(recording.parts.values()) == pytest.approx(ranges["dur"].mean(), rel=0.05)


def test_the_summary_names_the_run_and_its_cost(trained):
    text = str(trained[0].summary())
    assert "40: steps of the optimizer" in text
    assert "measured; budget 50 %" in text


def test_short_steps_are_timed_together_and_each_counts_once():
    with cudalens.watch(budget=0.001) as w:
        for k in range(3000):
            while 8 < k < 50 and w.is_building:
                time.sleep(0.01)
            w.step()
    steps = w.steps
    assert w.run.facts.num_steps == 3000
    assert steps["num_steps"].iloc[:16].max() == 1
    assert steps["num_steps"].max() > 4
    assert (steps["step"] + steps["num_steps"])[:-1].tolist() == steps["step"][1:].tolist()


def test_without_an_optimizer_batches_are_steps():
    with cudalens.watch() as w:
        for (x,) in Training().loader:
            x.sum()
    assert w.run.facts.source == "dataloader"
    assert w.run.facts.num_steps >= 30


def test_without_batches_calls_of_the_outermost_module_are_steps():
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    with torch.no_grad(), cudalens.watch() as w:
        for _ in range(30):
            model(torch.ones(2, 4))
    assert w.run.facts.source == "module"
    assert w.run.facts.num_steps >= 20
    assert not model._forward_pre_hooks


def test_the_program_can_say_where_steps_end():
    training = Training()
    with cudalens.watch() as w:
        for _ in range(5):
            training.batch(torch.randn(2, 8))
            training.batch(torch.randn(2, 8))
            w.step()
    assert w.run.facts.source == "program"
    assert w.run.facts.num_steps in (5, 6, 7)  # the first batches were steps of the optimizer


def test_two_optimizers_that_step_together_make_one_step():
    a, b = Training(), Training()
    with cudalens.watch() as w:
        for _ in range(10):
            a.batch(torch.randn(2, 8))
            b.batch(torch.randn(2, 8))
    assert w.run.facts.num_steps == 10


def test_a_profiler_of_the_program_gets_the_profiler():
    training = Training()
    seen = []
    with cudalens.watch(budget=0.5) as w:
        for _ in range(20):
            w.record()
            with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as theirs:
                training.batch(torch.randn(2, 8))
            seen.append({event.name for event in theirs.events()})
            with cudalens.profile(keep=False) as ours:
                training.batch(torch.randn(2, 8))
            seen.append(set(ours.trace.events["name"]))
    assert all("aten::linear" in names for names in seen)
    assert w.run.facts.notes == ()
    assert not torch.autograd._profiler_enabled()


def test_a_watch_inside_a_profile_records_nothing():
    training = Training()
    with cudalens.profile(keep=False) as outer, cudalens.watch(budget=0.5) as w:
        training.run()
    assert w.run.facts.num_recordings == 0
    assert w.run.facts.num_steps == 40
    assert (outer.trace.events["name"] == "aten::linear").sum() == 80


def test_an_exception_ends_it_and_passes_through():
    training = Training()
    before = hooks()
    w = cudalens.watch()

    def fail():
        training.batch(torch.randn(2, 8))
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"), w:
        fail()
    assert (w.run.facts.status, hooks()) == ("raised", before)


def test_a_stop_from_elsewhere_ends_it_within_the_loop_and_the_loop_goes_on():
    training, before = Training(), hooks()
    with cudalens.watch() as w:
        training.batch(torch.randn(2, 8))
        w.request_stop()
        for _ in range(5):
            training.batch(torch.randn(2, 8))
        assert not w.is_on
    assert w.run.facts.num_steps == 2
    assert hooks() == before


def test_the_sanitizer_beside_it_changes_no_result():
    def trained():
        torch.manual_seed(3)
        model = nn.Sequential(nn.Linear(8, 16), nn.Dropout(0.5), nn.Linear(16, 1)).cuda()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(12):
            optimizer.zero_grad()
            model(torch.randn(4, 8, device="cuda")).square().mean().backward()
            optimizer.step()
        return torch.cat([parameter.detach().cpu().reshape(-1) for parameter in model.parameters()])

    with cudalens.virtual.device("h100"):
        plain = trained()
        with cudalens.sanitize(), cudalens.watch(budget=0.5) as w:
            found = trained()
    assert torch.equal(plain, found)
    assert w.run.facts.num_recordings


def test_a_second_watch_is_refused_and_the_first_goes_on():
    with cudalens.watch("one") as w:
        with pytest.raises(cudalens.WatchError, match="'one' is already watching"), cudalens.watch():
            pass
        Training().run()
    assert w.run.facts.num_steps == 40


def test_forked_workers_of_a_loader_have_no_hooks():
    with cudalens.watch() as w:
        loader = DataLoader(Hooks(), batch_size=1, num_workers=1, multiprocessing_context="fork")
        assert next(iter(loader)).tolist() == [[0, 0]]
        Training().run()
    assert w.run.facts.num_steps == 40


class Hooks(torch.utils.data.Dataset):
    """Hooks and threads of the process that loads it."""

    def __len__(self):
        return 1

    def __getitem__(self, at):
        names = [thread.name for thread in threading.enumerate() if thread.name.startswith("cudalens")]
        return torch.tensor([len(optimizers._global_optimizer_post_hooks), len(names)])


def test_a_headless_run_is_loaded_from_its_folder(tmp_path):
    with cudalens.watch("headless", budget=0.5, folder=tmp_path / "run") as w:
        Training().run()
    loaded = cudalens.load(tmp_path / "run")
    assert loaded.steps.equals(w.steps)
    assert [trace.info.name for trace in loaded.traces] == [trace.info.name for trace in w.traces]
    assert loaded.traces
    page = loaded.to_html(tmp_path / "run.html").read_text()
    assert "headless" in page
    assert "<svg" in page


def test_a_folder_that_cannot_be_written_does_not_end_the_loop(tmp_path):
    folder = tmp_path / "run"
    w = cudalens.watch(budget=0.5, folder=folder)
    folder.rmdir()
    with w:
        result = Training().run()
    assert torch.equal(result, Training().run())
    assert any("nothing more is written" in note for note in w.run.facts.notes)


@pytest.mark.parametrize("budget", [0, -1, 0.9, float("nan")])
def test_a_budget_out_of_range_is_refused(budget):
    with pytest.raises(ValueError, match="expected a share of"):
        cudalens.watch(budget=budget)


def test_steps_on_a_virtual_device_have_its_times():
    with cudalens.virtual.device("h100"):
        x = torch.ones(256, 256, device="cuda")
        with cudalens.watch(budget=0.5) as w:
            for _ in range(30):
                for _ in range(4):
                    x = x @ x * 0.001
                w.step()
    assert w.run.facts.clock == "virtual"
    dur = w.steps["dur"]
    # The end of a recording waits for the device, so the step after it starts with an empty queue.
    assert (dur[1:] == dur.median()).mean() > 0.5
    assert dur[1:].max() < 1.2 * dur.median()
    parts = w.run.recordings[0].parts
    assert parts["GPU compute"] > 0
    assert sum(parts.values()) == pytest.approx(dur.median(), rel=0.25)


def a_loop_of_products(host_us=0):
    """A watched loop on a virtual device whose host works for `host_us` before it launches the products of a step."""
    with cudalens.virtual.device("h100", values=False):
        x = torch.ones(4096, 4096, device="cuda")
        with cudalens.watch(budget=0.5) as w:
            for _ in range(30):
                work(host_us)
                for _ in range(4):
                    x @ x
                w.step()
    return w


def test_a_recording_of_a_loop_whose_host_is_ahead_has_no_idle_time():
    w = a_loop_of_products()
    (step_ns,) = set(w.steps["dur"][15:])
    for recording, trace in zip(w.run.recordings, w.traces, strict=True):
        assert recording.parts == {"GPU compute": pytest.approx(step_ns, rel=0.001)}
        assert "GPU busy 100 %" in recording.verdict
        assert trace.info.ended_ns - trace.info.started_ns == pytest.approx(recording.num_steps * step_ns, rel=0.001)


def test_a_recording_of_a_loop_that_waits_for_its_host_has_its_idle_time():
    w = a_loop_of_products(host_us=30_000)
    step_ns = w.steps["dur"].iloc[-1]
    assert step_ns > 30_000_000
    for recording in w.run.recordings:
        assert recording.parts["GPU compute"] + recording.parts["idle: host"] == pytest.approx(step_ns, rel=0.01)
        assert recording.parts["idle: host"] > 15_000_000


def test_steps_are_recorded_once_the_host_is_as_far_ahead_as_before(monkeypatch):
    prepare, steps = ProfilerCollector.prepare, []

    def prepare_as_cupti(self):
        """Takes so long that the device finishes its work."""
        prepare(self)
        torch.cuda.synchronize()
        steps.append(active()._loop.num_steps)

    monkeypatch.setattr(ProfilerCollector, "prepare", prepare_as_cupti)
    w = a_loop_of_products()
    step_ns = w.steps["dur"].iloc[-1]
    first = w.run.recordings[0]
    assert first.step > steps[0]
    assert first.parts == {"GPU compute": pytest.approx(step_ns, rel=0.001)}


def test_a_recording_without_a_verdict_is_shown_with_the_reason(monkeypatch):
    def failing(trace):
        raise ValueError("damaged")

    monkeypatch.setattr("cudalens.api.watch.verdict", failing)
    recording = a_loop_of_products().run.recordings[-1]
    assert recording.verdict == "the recording could not be read: ValueError: damaged"
