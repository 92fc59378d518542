"""What a change of the step time is attributed to, from recorded steps of both sides."""

from made_traces import host, trace_of, work

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
