"""What a change of the step time is attributed to, from recorded steps of both sides."""

import pytest
from made_traces import host, trace_of, work

from cudalens.frames.catalog_frames import frame_of_rows
from cudalens.watching.causes import Before, causes


def recorded(gemm_ns, copy_ns):
    """One step with a copy to the device and a kernel after it."""
    copy = work(1_000, copy_ns, "Memcpy HtoD (Pageable -> Device)", cat="gpu_memcpy")
    kernel = work(1_000 + copy_ns, gemm_ns, "gemm")
    return trace_of([host(0, 2_000 + copy_ns + gemm_ns, "ProfilerStep#1", "user_annotation"), copy, kernel])


def test_more_compute_names_the_kernel_that_computes_and_not_a_copy_that_grew_more():
    before = Before(400_000, trace=recorded(200_000, 100_000))
    after = Before(1_200_000, trace=recorded(500_000, 600_000))
    texts = [cause.text for cause in causes(before, after)]
    compute = next(text for text in texts if text.startswith("GPU compute"))
    assert "most in gemm" in compute
    assert "Memcpy" not in compute


def loading_on_host(loading_ns, python_ns):
    """One step without a device that waits for a batch, and then in Python."""
    step = host(0, loading_ns + python_ns, "ProfilerStep#1", "user_annotation")
    loader = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
    return trace_of([step, host(0, loading_ns, loader, "user_annotation")])


def test_the_part_that_explains_most_of_a_change_is_the_first():
    before = Before(19_300_000, 9_000_000, trace=loading_on_host(9_000_000, 10_300_000))
    after = Before(31_800_000, 14_200_000, trace=loading_on_host(14_200_000, 17_600_000))
    texts = [cause.text for cause in causes(before, after)]
    assert texts == ["Python and other +7.30 ms", "+5.20 ms in data loading"]
    less = Before(29_000_000, 17_200_000, trace=loading_on_host(17_200_000, 11_800_000))
    assert causes(before, less)[0].text == "+8.20 ms in data loading"


def waits_then_computes(idle_ns, gemm_ns):
    """One step in which the device waits for the host and then computes."""
    step = host(0, idle_ns + gemm_ns, "ProfilerStep#1", "user_annotation")
    first, last = work(0, 1_000, "first"), work(1_000 + idle_ns, gemm_ns, "gemm")
    return trace_of([step, first, last])


def test_idle_time_that_explains_most_of_a_change_precedes_gpu_work():
    before = Before(2_000_000, trace=waits_then_computes(1_000_000, 1_000_000))
    after = Before(6_000_000, trace=waits_then_computes(4_000_000, 2_000_000))
    kinds = [cause.kind for cause in causes(before, after)]
    assert kinds == ["idle", "GPU work"]


def waiting(num):
    """One step with a kernel, and `num` reads of a value that wait for it."""
    trace = waits_then_computes(1_000_000 * num, 1_000_000)
    read = {"ts": 0, "seen_by": "runtime", "op": "aten::item", "place": "a.py:3"}
    return trace.replace(syncs=frame_of_rows("syncs", [read] * num))


@pytest.mark.parametrize(("added", "said"), [(1, "1 more wait for"), (2, "2 more waits for")])
def test_added_waits_are_counted_in_words(added, said):
    before, after = Before(1_000_000, trace=waiting(0)), Before(1_000_000 * (1 + added), trace=waiting(added))
    assert causes(before, after)[0].text == f"{said} the GPU a step: aten::item at a.py:3"


def on_host(python_ns):
    """One step without a device that waits in Python."""
    return trace_of([host(0, python_ns + 100_000, "ProfilerStep#1", "user_annotation"), host(0, 100_000, "aten::mm")])


def test_recordings_that_differ_by_another_amount_than_the_change_are_not_its_cause():
    """A recording of the first steps, or of steps after a further change: a step that takes 1 ms more has no +4 ms."""
    before, after = Before(2_200_000, trace=on_host(2_000_000)), Before(3_200_000, trace=on_host(6_150_000))
    assert causes(before, after) == []
    assert causes(before, Before(1_200_000, trace=on_host(6_150_000))) == []


def test_recordings_that_differ_by_about_the_change_say_where_the_time_goes():
    before, after = Before(2_200_000, trace=on_host(2_000_000)), Before(3_200_000, trace=on_host(3_300_000))
    assert [cause.text for cause in causes(before, after)] == ["Python and other +1.30 ms"]
