"""The gauges of GPUs beneath the timeline: their words, their columns for the page, and the picture that is saved."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
from sample_traces import T0, gpu_trace
from test_payload import read

from cudalens.frames import RunInfo, Trace
from cudalens.frames.build import metrics_frame
from cudalens.views import notebook
from cudalens.views.sections.page import summary
from cudalens.views.sections.verdict import details
from cudalens.views.timeline import payload
from cudalens.views.timeline.payload import pack
from cudalens.views.timeline.readings import GAUGES, device_rows, metrics_line, metrics_svg, metrics_verdict
from cudalens.views.timeline.svg import LABEL, PLOT

EVIL = "</script><img src=x onerror=alert(1)>"


def readings(num=50, devices=(0,), **more):
    """`num` moments over the 3 ms of the sample trace, for each device."""
    ts = np.repeat(T0 + np.linspace(0, 3_000_000, num).astype(np.int64), len(devices))
    device = list(devices) * num
    known = {
        "ts": ts.tolist(),
        "device": device,
        "physical_index": [0 if d is None else d for d in device],
        "gpu_busy_pct": [float(k % 101) for k in range(len(ts))],
        "memory_used_bytes": [2**30 + k for k in range(len(ts))],
        "power_watts": [100.25] * len(ts),
        "temperature_celsius": [40.0] * len(ts),
        "slowed_by": [""] * len(ts),
    }
    return metrics_frame(known | more)


def with_readings(frame, **info):
    return gpu_trace(**info).replace(metrics=frame)


def test_the_words():
    trace = with_readings(readings(10, slowed_by=["", "heat"] + ["power cap"] * 3 + [None] * 5))
    assert metrics_verdict(trace) == "up to 100 W and 40 °C; clocks throttled by power cap in 40 % of the readings"
    assert metrics_line(trace) == (
        "GPU busy 4.5 % on average; at most 1.00 GiB in use; up to 100 W and 40 °C; "
        "clocks throttled by power cap in 40 % of the readings; 10 readings of 1 GPU"
    )
    assert "up to 100 W and 40 °C" in details(trace)
    assert "up to 100 W and 40 °C" in str(summary(trace))


def test_a_trace_without_readings_states_nothing_of_them():
    trace = gpu_trace()
    assert (metrics_verdict(trace), metrics_line(trace), metrics_svg(trace)) == ("", "", None)
    assert details(trace) == details(with_readings(metrics_frame({"ts": []})))


def test_what_is_not_known_is_left_out():
    trace = with_readings(metrics_frame({"ts": [T0], "device": [0], "physical_index": [0], "gpu_busy_pct": [50.0]}))
    assert metrics_verdict(trace) == ""
    assert metrics_line(trace) == "GPU busy 50 % on average; 1 reading of 1 GPU"
    assert "Power" not in metrics_svg(trace).html()


def test_gpus_that_the_program_did_not_see_have_a_name_too():
    frame = readings(3, devices=(1, 0, None), physical_index=[1, 0, 4] * 3)
    assert [(label, len(rows)) for label, rows in device_rows(frame)] == [("cuda:0", 3), ("cuda:1", 3), ("GPU 4", 3)]


def test_the_page_gets_every_reading_back():
    frame = readings(40, devices=(0, 1), clock_mhz=[None if k % 3 else 1980 for k in range(80)])
    frame["slowed_by"] = pd.Categorical(["heat" if k % 7 == 0 else "" for k in range(80)])
    header, columns = read(pack(with_readings(frame)))
    facts = header["metrics"]
    assert facts["devices"] == ["cuda:0", "cuda:1"]
    for k, (_, rows) in enumerate(device_rows(frame)):
        assert np.cumsum(columns[f"met.{k}.ts"]).tolist() == (rows["ts"] - T0).tolist()
        for gauge in facts["gauges"]:
            sent = [None if v == 0 else (v - 1) / gauge["scale"] for v in columns[f"met.{k}.{gauge['column']}"]]
            held = [None if pd.isna(v) else float(v) for v in rows[gauge["column"]]]
            assert [v is None for v in sent] == [v is None for v in held]
            assert [v for v in sent if v is not None] == pytest.approx([v for v in held if v is not None], abs=0.051)
        assert [facts["reasons"][code] for code in columns[f"met.{k}.slowed_by"]] == rows["slowed_by"].tolist()


def test_many_readings_are_thinned_without_losing_a_peak(monkeypatch):
    monkeypatch.setattr(payload, "MAX_READINGS", 200)
    busy = np.zeros(5000)
    busy[3333] = 100
    header, columns = read(pack(with_readings(readings(5000, gpu_busy_pct=busy.tolist()))))
    assert len(columns["met.0.ts"]) <= 202
    assert max(columns["met.0.gpu_busy_pct"]) == 1001
    assert np.cumsum(columns["met.0.ts"])[-1] == 3_000_000
    assert header["metrics"]["devices"] == ["cuda:0"]


def test_the_picture_is_small_escaped_and_on_the_timelines_axis():
    frame = readings(5000, devices=tuple(range(8)), gpu_busy_pct=[50.0] * 40_000)
    frame["slowed_by"] = pd.Categorical([EVIL] * len(frame))
    text = metrics_svg(with_readings(frame, name=EVIL)).html()
    ElementTree.fromstring(text)
    assert "<img" not in text
    assert len(text) < 100_000
    trace = with_readings(readings(3))
    one = metrics_svg(trace).html()
    span = int((trace.events["ts"] + trace.events["dur"]).max()) - T0
    path = re.findall(r'<path d="M([\d. L]+)" fill="none"', one)[0]
    assert [float(point.split()[0]) for point in path.split("L")] == pytest.approx(
        [LABEL, LABEL + PLOT * 1_500_000 / span, LABEL + PLOT], abs=PLOT / 400
    )


def test_a_gpu_has_its_colour_in_every_picture():
    both, second = (metrics_svg(with_readings(readings(20, devices=devices))).html() for devices in ((0, 1), (1, 2)))
    color_of = dict(re.findall(r'<tspan fill="(#\w+)"[^>]*>(cuda:\d)', both))
    colors = {label: color for color, label in color_of.items()}
    assert colors["cuda:1"] in second
    assert colors["cuda:0"] not in second


def test_readings_alone_can_be_drawn():
    info = RunInfo(name="n", source="virtual:h100")
    trace = Trace(info, metrics=readings(5))
    assert "simulated: h100" in metrics_svg(trace).html()
    assert pack(trace)


def test_the_saved_picture_stays_below_its_limit():
    trace = with_readings(readings(5000, devices=tuple(range(8))))
    html = notebook.static_html(trace)
    assert "GPU busy" in html
    assert len(html.encode()) < notebook.MAX_HTML_BYTES


def test_gauges_are_columns_of_the_frame():
    assert {gauge.column for gauge in GAUGES} <= set(readings(1).columns)
