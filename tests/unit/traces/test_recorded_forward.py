"""Forward rows of recorded traces, compared with the flow events that Kineto wrote."""

import gzip
import json
from collections import defaultdict
from decimal import Decimal

import numpy as np
import pytest
from chrome import RECORDED, needs_recorded

import cudalens

pytestmark = needs_recorded


@pytest.mark.parametrize(
    ("file", "num_arrows"),
    [
        ("hta/amd_trace__mi250_minitoy_train_ROCm6_2_kineto.json.gz", 4),
        ("hta/nccl_parser_config__nccl_data.json.gz", 543),
        ("hta/ns_resolution_rank-0.json.gz", 905),
    ],
)
def test_every_arrow_of_kinetos_is_in_the_frame(file, num_arrows):
    events = cudalens.load(RECORDED / file).events
    with gzip.open(RECORDED / file) as stream:
        written = json.load(stream, parse_float=Decimal)
    base = int(written.get("baseTimeNanoseconds", 0))
    ends = defaultdict(dict)
    for entry in written["traceEvents"]:
        if entry.get("cat") == "fwdbwd":
            ends[entry["id"]][entry["ph"]] = (int(entry["tid"]), int(entry["ts"] * 1000))
    forward = events["forward"].to_numpy(dtype=np.int64, na_value=-1)
    places = defaultdict(list)
    numbered = events[events["sequence_nr"].notna() & events["tid"].notna()]
    for row, tid, ts in zip(numbered.index, numbered["tid"], numbered["ts"], strict=True):
        places[int(tid), int(ts)].append(row)

    def rows_at(end):
        tid, ts = end
        return places.get((tid, ts), []) or places.get((tid, ts + base), [])

    assert len(ends) == num_arrows
    for pair in ends.values():
        starts, stops = rows_at(pair["s"]), rows_at(pair["f"])
        assert any(forward[stop] in starts for stop in stops), pair
