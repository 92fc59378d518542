"""The parts of a step of a watched run, by examples."""

from made_traces import host, launch, trace_of, work

from cudalens.watching.causes import of_steps, step_parts

AT = 1_000_000


def step(ts, dur, number=0):
    return host(ts, dur, f"ProfilerStep#{number}", "user_annotation")


def collective(ts, dur):
    return host(ts, dur, "gloo:all_reduce", "user_annotation", tid=2)


def test_collectives_on_the_cpu_are_communication_where_nothing_else_runs():
    rows = [step(0, 100), host(10, 20, "aten::mm"), collective(25, 45), host(60, 20, "Optimizer.step#SGD.step")]
    assert step_parts(trace_of(rows)) == {
        "optimizer": 20, "operators": 20, "communication": 30, "Python and other": 30
    }  # fmt: skip


def test_a_host_that_is_ahead_has_the_window_of_the_device():
    rows = [step(0, 10), launch(2, 2, 1), launch(6, 2, 2), work(50, 20, call=1), work(70, 30, call=2)]
    trace = of_steps(trace_of(rows, AT, started_ns=AT, ended_ns=AT + 110), 50)
    assert step_parts(trace) == {"GPU compute": 50}


def test_idle_time_at_the_start_of_a_step_is_part_of_it():
    rows = [step(0, 60), launch(30, 2, 1), launch(40, 2, 2), work(50, 20, call=1), work(70, 30, call=2)]
    trace = of_steps(trace_of(rows, AT, started_ns=AT, ended_ns=AT + 110), 90)
    assert step_parts(trace) == {"GPU compute": 50, "idle: host": 40}


def test_the_window_does_not_begin_before_the_recording():
    rows = [step(0, 60), launch(30, 2, 1), work(50, 50, call=1)]
    trace = of_steps(trace_of(rows, AT, started_ns=AT, ended_ns=AT + 110), 500)
    assert (trace.info.started_ns, trace.info.ended_ns) == (AT, AT + 100)
