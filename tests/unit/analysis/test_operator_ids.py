"""Files from which operators were removed."""

import pytest
from made_traces import host, trace_of, work
from recorded_traces import TRACES, needs_recorded, opened

from cudalens.analysis import findings
from cudalens.analysis.trust.check import trust
from cudalens.analysis.trust.host import FILTERED, share_of_gaps


def idle_program(every):
    """Kernels of 100 µs every 10 ms; of the operators of the run every `every`-th is left."""
    rows = []
    for number in range(0, 60 * every, every):
        at = 10_000_000 * number // every
        rows.append(host(at, 20_000, "aten::mm") | {"external_id": number + 1})
        rows.append(host(at + 5_000, 5_000, "cudaLaunchKernel", "cuda_runtime", correlation_id=number + 1))
        rows.append(work(at + 15_000, 100_000, call=number + 1))
    trace = trace_of(rows)
    return trace.replace(info=trace.info.replace(source="file: chrome"))


@pytest.mark.parametrize(("every", "share"), [(1, 0.0), (7, 1.0)])
def test_the_share_after_which_an_operator_is_missing(every, share):
    assert share_of_gaps(idle_program(every)) == share


def test_idle_time_is_claimed_of_whole_files_only():
    assert [one.rule for one in findings(idle_program(1))] == ["host_work"]
    assert findings(idle_program(7)) == []


def test_a_file_with_a_part_of_the_operators_is_partial():
    whole, part = (trust(idle_program(every)).trust for every in (1, 7))
    assert "filtered" not in {one.rule for one in whole.findings}
    assert (part.verdict, part.findings[0].rule) == ("partial", "filtered")
    assert "after 100 % of those in the file" in part.findings[0].what


@needs_recorded
def test_recorded_files_are_whole():
    assert max(share_of_gaps(opened(name)) for name in TRACES) < FILTERED / 10


@needs_recorded
@pytest.mark.parametrize("name", ["timeline_analysis__sampled_rank-0", "trace_filter__sampled_rank-1"])
def test_sampled_files_are_not(name):
    assert share_of_gaps(opened(f"hta/{name}.json.gz")) == pytest.approx(0.62, abs=0.01)
