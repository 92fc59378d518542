"""Assertions: which texts are parsed, which are refused and where, and which hold."""

import pytest
from findings_worlds import MS, US, World
from hypothesis import given
from hypothesis import strategies as st

import cudalens
from cudalens.analysis import parse_assertion
from cudalens.analysis.assertions import FIGURES, rules
from cudalens.errors import AssertionFailed, AssertionSyntaxError, CudalensError
from cudalens.frames import Judged, Trace


@pytest.fixture(scope="module")
def trace():
    """10 kernels of 100 µs back to back, then 1 ms of a range without work: busy 1 ms of 2.005."""
    world = World().kernels(10, 100 * US, name="sgemm_{}")
    world.now = MS + 5 * US
    world.within("logging", lambda w: w.sleep(MS))
    return world.trace(started_ns=0, ended_ns=2_005_000, judged=Judged(10, 1))


HOLDS = [
    "idle < 51%",
    "idle > 50 %",
    "idle<1.1ms",
    "busy == 1 ms",
    "busy == 1000 us and kernels == 10",
    "busy == 1000µs",
    "wall < 2.1 ms",
    "0.9 ms < busy <= 1 ms",
    "kernels == 1_0",
    "races == 0",
    "idle < 1% or kernels > 3",
    "not kernels > 30",
    "not (kernels > 30 or idle < 1%) and races == 0",
    "communication == 0",
    "compute > communication",
    'kernel("sgemm_[0-4]$").count == 5',
    "kernel('sgemm').time == 1 ms",
    "kernel('sgemm').time < 50%",
    "kernel('sgemm').mean == 100 us",
    'range("^logging$").max == 1 ms',
    'op("nothing").count == 0',
    "host_syncs == 0",
    'finding("data_loader") == 0',
    "1e3 us == busy",
    "kernels == 10 or peak_memory < 1 B",
]


@pytest.mark.parametrize("text", HOLDS)
def test_what_holds(trace, text):
    trace.check(text)
    (outcome,) = [parse_assertion(text).check(trace)]
    assert outcome.holds


FAILS = [
    ("idle < 20%", "idle is 50.1 % (1.00 ms)"),
    ("idle < 5 us", "idle is 1.00 ms (50.1 %)"),
    ("kernels != 10", "kernels is 10"),
    ("kernels < 3 and races == 0", "kernels is 10"),
    ("not busy == 1 ms", "busy is 1.00 ms (49.9 %)"),
    ("kernel('sgemm').mean < 1 us", "kernel('sgemm').mean is 100 µs"),
    ("peak_memory < 8 GB", "memory was not recorded; profile with --memory (cudalens.profile(memory=True))"),
    ("step < 1 ms", "no step was recorded; profile with --repeat N, or call cudalens.step() in the profiled block"),
    ("kernel('none').mean < 1 us", "no kernel has 'none' in its name"),
]


@pytest.mark.parametrize(("text", "found"), FAILS)
def test_what_fails_states_what_was_found(trace, text, found):
    with pytest.raises(AssertionFailed) as failed:
        cudalens.check(trace, text, "kernels == 10")
    assert failed.value.failures == ((text, found),)
    assert str(failed.value).splitlines() == [
        "1 of 2 assertions does not hold on 'run':",
        f"  {text}  {found}",
    ]
    assert isinstance(failed.value, AssertionError)
    assert isinstance(failed.value, CudalensError)


def test_races_that_were_not_looked_for_are_no_proof(trace):
    unwatched = trace.replace(info=trace.info.replace(judged=None))
    with pytest.raises(AssertionFailed, match="switch the sanitizer on with %cudasan on"):
        unwatched.check("races == 0")


def test_a_run_without_a_device_has_no_idle_gpu():
    cpu = World().op("aten::add", US).trace(source="cpu")
    with pytest.raises(AssertionFailed, match="no device was used"):
        cpu.check("idle < 20%")


def test_simulated_times_report_it(trace):
    modelled = trace.replace(info=trace.info.replace(source="virtual:h100"))
    with pytest.raises(AssertionFailed, match=r"\(modelled times\)"):
        modelled.check("idle < 20%")


REFUSED = [
    ("", 0, "unexpected end"),
    ("idle < 20", 7, "20 has no unit; expected ns, us, ms, s or min or %"),
    ("20 > idle", 0, "20 has no unit"),
    ("idel < 20%", 0, "did you mean idle?"),
    ("idle < 5 GB", 7, "5 GB cannot be compared with idle"),
    ("kernels < 5%", 10, "5% cannot be compared with kernels; expected no unit"),
    ("idle = 5 ms", 5, "found =; expected =="),
    ("idle", 4, "idle is not compared"),
    ("peak_memory < 8 Gb", 16, "did you mean GB?"),
    ("idle < 5 parsecs", 9, "unknown unit"),
    ("idle < 5 ms idle", 12, "expected and, or, or the end"),
    ("(idle < 5 ms", 12, "expected )"),
    ("idle $ 5 ms", 5, "unexpected '$'"),
    ("idle < 5 ms and", 15, "unexpected end"),
    ("idle < and", 7, "found 'and'"),
    ('kernel("(").count < 3', 0, "invalid regular expression"),
    ('kernel("x").sum < 3', 0, ".count, .time"),
    ("kernel(x).count < 3", 7, "a text in quotes"),
    ('finding("nothing") < 3 ms', 0, "one of the rules launch_bound"),
    ('wall("x") < 3 ms', 0, "takes no argument"),
    ("__import__('os').system == 0", 0, "unknown figure '__import__'"),
    ("not " * 60 + "idle < 1%", 4 * 50, "are nested"),
    ("(" * 60 + "idle < 1%" + ")" * 60, 50, "are nested"),
    ("x" * 3000, 2000, "at most 2,000 characters"),
    ('kernel("unclosed) < 3', 7, "unexpected"),
]


@pytest.mark.parametrize(("text", "position", "reason"), REFUSED)
def test_what_is_refused_states_where(text, position, reason):
    with pytest.raises(AssertionSyntaxError) as refused:
        parse_assertion(text)
    assert refused.value.position == position
    assert reason in str(refused.value)
    shown, mark = str(refused.value).splitlines()[-2:]
    assert mark.strip() == "^"
    assert shown[mark.index("^") :].strip()[:20] == text[position:].strip()[:20]


@given(st.text(max_size=60))
def test_any_text_is_read_or_refused(text):
    position = 0
    try:
        parse_assertion(text)
    except AssertionSyntaxError as refused:
        position = refused.position
    assert 0 <= position <= len(text)


ATOMS = {"kernels == 10": True, "kernels < 3": False, "busy == 1 ms": True, "idle < 1%": False}
LOGIC = st.recursive(
    st.sampled_from(list(ATOMS)),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["and", "or"]), inner).map(lambda parts: f"({' '.join(parts)})"),
        inner.map(lambda one: f"not {one}"),
    ),
    max_leaves=8,
)


@given(text=LOGIC)
def test_logic_is_pythons(trace, text):
    meant = text
    for atom, value in ATOMS.items():
        meant = meant.replace(atom, str(value))
    assert parse_assertion(text).check(trace).holds == eval(meant)


def test_and_binds_closer_than_or(trace):
    trace.check("kernels == 10 or kernels == 1 and kernels == 2")


def test_every_figure_is_measured_or_states_why_not(trace):
    for name, known in FIGURES.items():
        unit = {"time": "ms", "bytes": "B", "count": "", "per cent": "%"}[sorted(known.kinds)[0]]
        outcome = parse_assertion(f"{name} >= 0 {unit}").check(trace)
        assert outcome.holds or "record" in outcome.found, name


def test_every_rule_can_be_asked_for(trace):
    assert len(set(rules())) == len(rules()) >= 20
    for rule in rules():
        assert parse_assertion(f'finding("{rule}") >= 0').check(trace).holds


def test_a_trace_without_events_fails_clearly():
    from cudalens.frames import RunInfo

    empty = Trace(RunInfo(name="empty", source="cpu"))
    with pytest.raises(AssertionFailed):
        empty.check("idle < 20%")
    empty.check("findings == 0", "wall == 0", "kernels == 0")
