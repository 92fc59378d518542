"""Random programs as source: whatever is offered as a diff, applied and run again, removes its race and adds none."""

import linecache
import textwrap

import pytest
from budget import examples
from hypothesis import HealthCheck, example, given, note, settings
from hypothesis import strategies as st
from test_fix_writing import applied, findings_in

HEAD = """
import torch

s1, s2 = torch.cuda.Stream(), torch.cuda.Stream()
a, b = torch.ones(64, device="cuda"), torch.ones(64, device="cuda")
h = torch.ones(64).pin_memory()
p = torch.ones(64)
w = torch.ones(64, device="cuda", requires_grad=True)
loss = (w * b.clone()).sum()
event = torch.cuda.Event()
graph = torch.cuda.CUDAGraph()
torch.cuda.synchronize()
with torch.cuda.graph(graph):
    a.add_(1)
torch.cuda.synchronize()

def double(x):
    x.mul_(2)

def read(x):
    with torch.cuda.stream(s1):
        return x.sum()

def fresh(stream):
    t = torch.ones(4096, device="cuda")
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        u = t + 1
    return u

"""

tensors = st.sampled_from(["a", "b", "a[:32]", "a[32:]", "b[::2]"])
streams = st.sampled_from(["s1", "s2"])
simple = st.one_of(
    st.builds("{}.add_(1)".format, tensors),
    st.builds("c = {} * 2".format, tensors),
    st.builds("double({})".format, tensors),
    st.builds("{}.copy_(b[:32], non_blocking=True)".format, st.sampled_from(["a[:32]", "h[:32]"])),
    st.just("b[:32].copy_(h[:32], non_blocking=True)"),
    st.sampled_from(
        ["h.sum()", "h.fill_(1)", "x = fresh(s1)", "x = fresh(s2)", "y = torch.zeros(4096, device='cuda')"]
    ),
    st.builds("torch.cuda.current_stream().wait_stream({})".format, streams),
    st.sampled_from(["event.record()", "event.wait()", "event.synchronize()"]),
    st.sampled_from(["graph.replay()", "(w * a).sum().backward()", "w.grad = None", "loss = (w * b.clone()).sum()"]),
    st.sampled_from(
        [
            "loss.backward(retain_graph=True)",
            "p.copy_(a, non_blocking=True)",
            "p.add_(1)",
            "a.copy_(p, non_blocking=True)",
        ]
    ),
    st.builds("n = read({})".format, tensors),
)
simple = st.one_of(simple, st.builds("n = 0; {}; n = 1".format, simple), st.builds("if a.numel(): {}".format, simple))


def indented(lines):
    return textwrap.indent("\n".join(lines), "    ")


def blocks(children):
    several = st.lists(children, min_size=1, max_size=3).map(indented)
    return st.one_of(
        st.builds("with torch.cuda.stream({}):\n{}".format, streams, several),
        st.builds("for _ in range(2):\n{}".format, several),
        st.builds("if a.numel():\n{}".format, several),
    )


def numbered(body):
    """Each line with a comment of its own, by which it is known again in the patched program."""
    return "".join(f"{line}  # {number}\n" for number, line in enumerate(body.splitlines()))


programs = st.lists(st.recursive(simple, blocks, max_leaves=4), min_size=2, max_size=5).map("\n".join).map(numbered)


def races_of(findings):
    """Races by kind and the numbers of their lines, which are the same in the patched program."""
    places = [(f.race.kind, f.race.first.place.source, f.race.second.place.source) for f in findings]
    return {(kind, first.rpartition("# ")[2], second.rpartition("# ")[2]) for kind, first, second in places}


CALLED_UNDER_TWO_STREAMS = """\
with torch.cuda.stream(s2):
    double(a)
    b[::2].add_(1)
with torch.cuda.stream(s1):
    double(b[::2])
    double(a)
with torch.cuda.stream(s1):
    a[:32].copy_(b[:32], non_blocking=True)
"""


@settings(
    deadline=None,
    max_examples=examples(25),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(body=programs)
@example(body=numbered(CALLED_UNDER_TWO_STREAMS))
def test_no_diff_is_ever_wrong(body, tmp_path):
    path, text = tmp_path / "program.py", HEAD + body
    findings = findings_in(text, path)
    before = races_of(findings)
    for finding in findings:
        assert finding.fix is not None
        if finding.fix.diff:
            note(finding.fix.diff)
            path.write_text(text)
            linecache.checkcache(str(path))
            mine = races_of([finding])
            left = races_of(findings_in(applied(text, finding.fix.diff), path))
            assert not mine & left
            assert left <= before


@pytest.mark.parametrize("is_racy", [True, False])
def test_the_programs_can_race_and_can_be_clean(is_racy, tmp_path):
    wait = "" if is_racy else "s1.wait_stream(torch.cuda.current_stream())\n"
    body = f"double(a)\n{wait}with torch.cuda.stream(s1):\n    a.add_(1)\n"
    assert bool(findings_in(HEAD + body, tmp_path / "program.py")) is is_racy
