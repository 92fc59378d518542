"""Every number of the recorded snapshots, and of those that were made so that the numbers are known."""

import csv
import json
from pathlib import Path

import pytest

import cudalens
from cudalens.analysis import block_lifetimes, blocks_at, fragmentation, memory_peak, memory_totals, pool_totals

RECORDED = Path(__file__).parents[4] / "shared" / "recorded"
REFERENCE = RECORDED / "reference_snapshots.csv"
SYNTHETIC = RECORDED / "snapshots_synthetic"
ROWS = list(csv.DictReader(REFERENCE.open())) if REFERENCE.is_file() else []
KNOWN = json.loads((SYNTHETIC / "expected.json").read_text()) if (SYNTHETIC / "expected.json").is_file() else {}

pytestmark = pytest.mark.skipif(not ROWS, reason=f"no recorded snapshots at {RECORDED}")


@pytest.mark.parametrize("row", ROWS, ids=[row["file"].split("/")[1] for row in ROWS])
def test_every_number_of_the_reference(row):
    trace = cudalens.load(RECORDED / row["file"])
    assert trace.info.problems == ()
    totals = memory_totals(trace)
    assert totals["file"] == Path(row["file"]).name
    assert {name: str(totals[name]) for name in row if name != "file"} == {n: v for n, v in row.items() if n != "file"}


@pytest.mark.parametrize("name", KNOWN)
def test_every_number_known_by_construction(name):
    trace = cudalens.load(SYNTHETIC / f"{name}.pickle")
    totals = memory_totals(trace)
    expected = {key: value for key, value in KNOWN[name].items() if key != "note"}
    assert {key: totals[key] for key in expected} == expected


@pytest.mark.parametrize("row", ROWS, ids=[row["file"].split("/")[1] for row in ROWS])
def test_what_lives_at_a_moment_adds_up_to_the_running_totals(row):
    trace = cudalens.load(RECORDED / row["file"])
    lives, memory = block_lifetimes(trace), trace.memory
    for at in {0, len(memory) // 3, len(memory) // 2, len(memory) - 1}:
        alive = blocks_at(trace, row=at)
        assert alive["num_bytes"].sum() == memory["active_bytes"].iloc[at]
        assert alive["requested_bytes"].sum() == memory["requested_bytes"].iloc[at]
    peak = memory_peak(trace, of="requested_bytes")
    assert peak["num_bytes"] == int(row["hist_peak_requested_dev0"])
    assert blocks_at(trace, row=peak["row"])["requested_bytes"].sum() == peak["num_bytes"]
    active = trace.blocks["state"] != "inactive"
    assert set(lives["block"].dropna()) == set(trace.blocks.index[active])


@pytest.mark.parametrize("row", ROWS, ids=[row["file"].split("/")[1] for row in ROWS])
def test_pools_and_fragmentation_add_up(row):
    trace = cudalens.load(RECORDED / row["file"])
    (parts,) = fragmentation(trace).to_dict("records")
    named = ("requested_bytes", "internal_bytes", "external_bytes", "empty_bytes")
    assert sum(parts[name] for name in named) == parts["reserved_bytes"] == int(row["reserved"])
    assert parts["empty_bytes"] == int(row["bytes_empty_segments"])
    assert parts["largest_free_bytes"] == int(row["largest_free_block"])
    assert 0 <= parts["fragmentation_pct"] <= 100
    pools = pool_totals(trace)
    assert pools["num_segments"].sum() == int(row["segments"])
    assert pools["reserved_bytes"].sum() == int(row["reserved"])
    assert pools["num_blocks"].sum() == int(row["blocks"])
