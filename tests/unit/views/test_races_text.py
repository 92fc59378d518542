import pytest
from sample_races import INFO, clean_trace, many_races, race_trace, races_frame, read_after_write, use_after_free
from sample_traces import gpu_trace

from cudalens.frames import Judged, StackTable, Trace
from cudalens.views.races import section as races
from cudalens.views.races import section as races_words
from cudalens.views.sections import verdict as text
from cudalens.views.sections.page import summary
from cudalens.views.sections.write_text import to_text


def trace_of(*rows, stacks=None, **info):
    stacks = StackTable() if stacks is None else stacks
    made = [row(stacks) if callable(row) else row for row in rows]
    return Trace(INFO.replace(**info), races=races_frame(made), stacks=stacks.to_frame())


def report(trace):
    return to_text(races.section(trace))


def test_verdict_counts_races_and_times():
    assert races_words.races_verdict(race_trace()) == "2 races, seen 514 times"


@pytest.mark.parametrize(("count", "seen"), [(1, ""), (2, ", seen twice"), (1500, ", seen 1,500 times")])
def test_verdict_of_one(count, seen):
    trace = trace_of(lambda stacks: read_after_write(stacks, count=count, second_place="In[7]:5"))
    assert races_words.races_verdict(trace) == f"1 race{seen}"


def test_verdict_of_a_clean_run_states_what_was_judged():
    assert races_words.races_verdict(clean_trace()) == "no races: 1,204 operations on 3 streams checked"
    assert races_words.races_verdict(clean_trace(judged=Judged(1, None))) == "no races: 1 operation checked"


def test_verdict_is_empty_without_a_check():
    assert races_words.races_verdict(gpu_trace()) == ""
    assert "race" not in text.verdict(gpu_trace())


def test_verdict_counts_suppressed_races_apart():
    rows = [lambda s: read_after_write(s, is_suppressed=True), use_after_free]
    assert races_words.races_verdict(trace_of(*rows)) == "1 race, seen twice; 1 more suppressed"
    assert races_words.races_verdict(trace_of(rows[0])).startswith("no races (1 race suppressed): 1,204 operations")


def test_verdict_states_that_the_watch_ended_early():
    for trace in (race_trace(judged=Judged(5, 1, 0, "ValueError: no\nway")), clean_trace(judged=Judged(5, 1, 0, "no"))):
        assert "because of an error in it: " in races_words.races_verdict(trace)
        assert "\n" not in races_words.races_verdict(trace)


def test_the_traces_verdict_is_one_line_with_races_first():
    line = text.verdict(race_trace(events=True))
    assert line.startswith("2 races, seen 514 times; 3.00 ms, GPU busy 45 %: up to ")
    assert "\n" not in line
    assert text.verdict(race_trace()) == "2 races, seen 514 times"
    assert text.verdict(clean_trace(source="virtual:h100", status="raised")) == (
        "[simulated: h100] no races: 1,204 operations on 3 streams checked; the code raised"
    )
    assert text.verdict(gpu_trace(judged=Judged(9, 2))).endswith("no races: 9 operations on 2 streams checked")


def test_plain_text_holds_each_race_side_by_side():
    lines = str(summary(race_trace())).splitlines()
    assert lines[0] == "2 races, seen 514 times"
    assert lines[2] == "Race 1: use after free of other, In[8]:4 and In[7]:8, seen twice"
    text = "\n".join(lines)
    for wanted in (
        "Operation   mul_ writes self                           sum reads self",
        "Call stack  called from In[7], line 5, in scale_grads  called from In[7], line 8, in total\n"
        "            called from In[7], line 11, in step",
        "3 stack frames in common: In[7]:12 in <module>",
        "Allocated at In[3]:2: grads = torch.empty(1024, 1024, device='cuda')",
        "The earlier tensor was freed at In[8]:6: del batch",
        "  +    torch.cuda.current_stream().wait_stream(side)",
        "Checked on the recorded run: the race is gone and nothing else changed.",
    ):
        assert wanted in text
    assert max(map(len, lines)) <= 100


def test_a_race_with_a_replay_names_the_replay_and_the_captured_line():
    captured = {"second_captured_place": "In[2]:4", "second_captured_source": "y = x.sum()"}
    row = read_after_write(StackTable(), **captured)
    lines = report(trace_of(row | {f"{k}_stack": None for k in ("first", "second", "alloc")})).splitlines()
    (line,) = [line.split() for line in lines if "Captured" in line]
    assert line == ["Captured", "not", "in", "a", "graph", "In[2]:4", "y", "=", "x.sum()"]


def test_plain_text_of_many_races_is_bounded():
    lines = report(many_races(300)).split("\n")
    assert sum(line.startswith("Operation ") for line in lines) == races.MAX_TEXT
    named = [line.strip() for line in lines if line.strip().startswith("Race ")]
    assert [line.partition(":")[0] for line in named] == [f"Race {number}" for number in range(1, len(named) + 1)]
    assert lines[-1] == f"and {300 - len(named)} more in trace.races"
    assert len(lines) < 400


@pytest.mark.parametrize(
    ("kind", "first", "second", "said"),
    [
        ("read after write", True, False, "sum on the default stream may read before mul_ on stream 0x5581e0 has"),
        ("write after read", False, True, "sum on the default stream may overwrite what mul_ on stream 0x5581e0"),
        ("write after write", True, True, "mul_ and sum write the same bytes, and either may come last"),
        ("use after free", True, False, "mul_ on stream 0x5581e0 may still use memory that was freed and handed out"),
    ],
)  # fmt: skip
def test_a_sentence_states_what_may_go_wrong(kind, first, second, said):
    row = read_after_write(StackTable(), kind=kind, first_is_write=first, second_is_write=second)
    text_of = report(trace_of(row | {f"{k}_stack": None for k in ("first", "second", "alloc")}))
    assert said in " ".join(text_of.split())


def test_strided_bytes_are_counted():
    row = read_after_write(StackTable(), overlap_high_byte=1023, overlap_bytes=256)
    text_of = report(trace_of(row | {f"{k}_stack": None for k in ("first", "second", "alloc")}))
    assert "both touch bytes 0 to 1,023 (1.00 KiB), 256 B of them of the block's 4.00 MiB" in text_of
