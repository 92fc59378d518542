"""Waits by place and kind, and what to write instead."""

import pandas as pd
import pytest

from cudalens.analysis import SyncAdvice, summarize_syncs, syncs
from cudalens.analysis.time.sync_advice import advice, remedy
from cudalens.frames import RunInfo, SyncKind, Trace
from cudalens.frames.catalog_frames import frame_of_rows


def trace(*rows):
    return Trace(
        RunInfo(name="run", source="cuda"),
        syncs=frame_of_rows("syncs", [{"ts": 0, "seen_by": "runtime"} | r for r in rows]),
    )


def wait(dur, place="In[1]:2", expression="loss.item()", kind="item", **more):
    return {"dur": dur, "place": place, "source": expression, "expression": expression, "kind": kind, **more}


def test_waits_of_one_expression_are_one_row():
    found = syncs(trace(wait(10, event=4), wait(30, event=5, gpu_dur=20), wait(5, event=6)))
    (row,) = found.to_dict("records")
    assert (row["count"], row["total_ns"], row["mean_ns"], row["max_ns"], row["gpu_ns"]) == (3, 45, 15.0, 30, 20)
    assert (row["event"], row["share_pct"], row["is_hidden"]) == (5, 100.0, True)


def test_the_most_expensive_comes_first_and_unknown_times_last():
    found = syncs(trace(wait(None, "In[1]:1"), wait(10, "In[1]:2"), wait(90, "In[1]:3")))
    assert found["place"].tolist() == ["In[1]:3", "In[1]:2", "In[1]:1"]
    assert found["share_pct"].tolist() == [90.0, 10.0, pd.NA]


def test_what_differs_in_place_expression_or_kind_stays_apart():
    rows = [
        wait(1),
        wait(1, expression="b.item()"),
        wait(1, kind="print"),
        wait(1, "In[2]:2"),
        wait(1, op="aten::item"),
    ]
    assert len(syncs(trace(*rows))) == 5


def test_totals_add_up():
    rows = [wait(n, f"In[1]:{n % 3}") for n in range(20)]
    found = syncs(trace(*rows))
    assert found["total_ns"].sum() == sum(range(20))
    assert found["count"].sum() == 20
    assert found["share_pct"].sum() == pytest.approx(100)


def test_a_trace_without_waits_has_no_rows():
    found = syncs(trace())
    assert found.empty
    assert summarize_syncs(found).worst is None


def test_what_is_handed_out_is_the_users_to_change():
    run = trace(wait(10))
    found = syncs(run)
    found["count"] = 99
    assert syncs(run)["count"].tolist() == [1]


def test_the_worst_is_a_hidden_one_where_there_is_one():
    explicit = wait(900, "In[1]:9", "torch.cuda.synchronize()", "device synchronize")
    found = summarize_syncs(syncs(trace(explicit, wait(10), wait(20, "In[1]:3"))))
    assert (found.num_hidden, found.hidden_ns, found.num_places) == (2, 30, 2)
    assert (found.num_explicit, found.explicit_ns) == (1, 900)
    assert found.worst["place"] == "In[1]:3"
    assert summarize_syncs(syncs(trace(explicit))).worst["place"] == "In[1]:9"


ADVICE = [
    ("item", None, "loss.item()", "keep loss on the device (total += loss.detach()) and read it every N steps"),
    ("item", None, "float(net.loss)", "keep net.loss on the device"),
    ("truth test", None, "if (x > 0).any()", "torch.where(x > 0, a, b)"),
    ("truth test", None, "assert ok", "torch._assert_async(ok)"),
    ("boolean index", "aten::index", "x[mask]", "torch.where(mask, x, 0)"),
    ("boolean index", "aten::index_put_", "x[mask]", "x.masked_fill_(mask, value)"),
    ("boolean index", "aten::masked_select", "torch.masked_select(x, m)", "torch.where(m, x, 0)"),
    ("nonzero", None, "torch.nonzero(m)", "torch.nonzero_static(m, size=n)"),
    ("pageable copy to device", None, "batch.cuda()", "batch.pin_memory()"),
    ("pageable copy to device", None, "torch.tensor([1, 2], device='cuda')", "make the tensor once"),
    ("pageable copy to device", None, "torch.tensor([1, 2]).cuda()", "make the tensor once"),
    ("module to device", None, "net.to('cuda')", 'with torch.device("cuda"): model = '),
    (".cpu()", None, "out.cpu()", "host.copy_(out, non_blocking=True)"),
    ("item", None, None, "keep x on the device"),
    ("operator", "aten::cudnn_convolution", None, "torch.backends.cudnn.benchmark"),
    ("item", None, "this is no Python(", "keep x on the device"),
    ("item", None, f"({' + '.join('abcdefghijklmnopqrstuvwxyz')}).item()", "keep x on the device"),
]


@pytest.mark.parametrize(("kind", "op", "expression", "words"), ADVICE)
def test_advice_names_the_users_own_expression(kind, op, expression, words):
    assert words in advice(SyncKind(kind), op, expression)


def test_every_kind_has_advice_and_every_advice_a_use():
    used = {remedy(kind, has_torch=has_torch) for kind in SyncKind for has_torch in (True, False)}
    used |= {remedy(SyncKind(kind), op, expression) for kind, op, expression, _ in ADVICE}
    assert used == set(SyncAdvice)


@pytest.mark.parametrize("kind", list(SyncKind))
def test_advice_for_a_program_without_torch_names_nothing_of_it(kind):
    text = advice(kind, has_torch=False)
    assert not any(word in text for word in ("torch", "non_blocking", "DataLoader", "wait_stream")), text


def test_braces_in_the_users_code_are_text():
    assert "{'a': 1}['a']" in advice(SyncKind.ITEM, None, "{'a': 1}['a'].item()")
