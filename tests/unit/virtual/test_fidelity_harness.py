"""The fidelity suite run on the virtual device against itself: equal runs compare equal, differences are found."""

import copy
import json

import pytest
import torch
from fidelity import (
    PROGRAMS,
    DeviceFacts,
    Observation,
    compare,
    load_all,
    predicted_over_measured,
    run_virtual,
    save,
    twin_of,
)
from fidelity.recordings import slug
from fidelity.runs import observe_virtual

import cudalens.virtual
from cudalens.virtual import SPECS


@pytest.fixture(scope="module", params=list(PROGRAMS))
def seen(request):
    return observe_virtual(PROGRAMS[request.param], SPECS["h200"])


@pytest.fixture(scope="module")
def prefetch():
    return observe_virtual(PROGRAMS["two_stream_prefetch"], SPECS["h200"])


def test_a_program_does_the_same_twice(seen):
    assert compare(seen, observe_virtual(PROGRAMS[seen.program], SPECS["h200"])) == []


def test_a_program_leaves_something_to_compare(seen):
    assert seen.callbacks[-1].startswith(("DeviceSynchronized", "EventDeleted", "MemoryFreed"))
    assert "end" in seen.memory
    assert seen.facts
    assert all(stats["reserved_bytes.all.peak"] >= stats["allocated_bytes.all.peak"] for stats in seen.memory.values())


def test_it_survives_its_file(seen, tmp_path):
    again = Observation.from_json(seen.to_json())
    assert again == seen
    assert compare(seen, again) == []


def test_another_process_sees_the_same(prefetch):
    """As on a machine with a GPU: the virtual device in a separate process, with every GPU hidden."""
    elsewhere = run_virtual(PROGRAMS["two_stream_prefetch"], prefetch.device)
    assert compare(prefetch, elsewhere) == []
    assert elsewhere.device == prefetch.device


def test_the_allocators_options_reach_the_other_process():
    program = PROGRAMS["fragmentation_split"]
    here = observe_virtual(program, SPECS["h200"])
    assert compare(here, run_virtual(program, here.device)) == []
    assert compare(here, observe_virtual(PROGRAMS["fragmentation"], SPECS["h200"])) != []


def changed(observation, change):
    other = copy.deepcopy(observation)
    change(other)
    return other


def swap(texts, at):
    texts[at], texts[at + 1] = texts[at + 1], texts[at]


CHANGES = {
    "callbacks": [
        lambda o: o.callbacks.pop(),
        lambda o: o.callbacks.append("DeviceSynchronized"),
        lambda o: swap(o.callbacks, next(i for i, c in enumerate(o.callbacks) if c.startswith("EventCreated"))),
        lambda o: o.callbacks.__setitem__(-5, "MemoryAllocated block 99"),
    ],
    "memory": [
        lambda o: o.memory["end"].__setitem__("reserved_bytes.all.peak", 1),
        lambda o: o.memory["end"].__setitem__(
            "allocated_bytes.all.peak", o.memory["end"]["allocated_bytes.all.peak"] + 1
        ),
        lambda o: o.memory.pop("all issued"),
    ],
    "segments": [
        lambda o: o.segments.pop(),
        lambda o: o.segments[0]["blocks"].append("inactive 512"),
        lambda o: o.segments.append(copy.deepcopy(o.segments[0])),
    ],
    "order": [
        lambda o: o.marks_ms.update({"batch 0 ends": o.marks_ms["batch 5 ends"] + 1}),
        lambda o: o.marks_ms.pop("batch 0 ends"),
    ],
    "facts": [lambda o: o.facts.__setitem__("copy stream is done", False), lambda o: o.facts.clear()],
    "errors": [lambda o: o.errors.__setitem__("more", "torch.OutOfMemoryError")],
}


@pytest.mark.parametrize(("kind", "change"), [(kind, change) for kind, made in CHANGES.items() for change in made])
def test_every_kind_of_difference_is_found_from_both_sides(prefetch, kind, change):
    other = changed(prefetch, change)
    assert {d.kind for d in compare(prefetch, other)} == {kind}
    assert {d.kind for d in compare(other, prefetch)} == {kind}


def test_marks_closer_than_noise_have_no_order(prefetch):
    close = changed(prefetch, lambda o: o.marks_ms.update({"batch 0 ends": 30.0, "copy 1 ends": 30.001}))
    reverse = changed(prefetch, lambda o: o.marks_ms.update({"batch 0 ends": 30.001, "copy 1 ends": 30.0}))
    assert compare(close, reverse) == []


def test_times_are_information(prefetch):
    slow = changed(prefetch, lambda o: o.marks_ms.update({k: 2 * v for k, v in o.marks_ms.items()}))
    assert compare(prefetch, slow) == []
    ratios = predicted_over_measured(prefetch, slow)
    assert ratios
    assert all(abs(ratio - 2) < 1e-9 for ratio in ratios.values())


def test_another_card_shows_in_what_it_does():
    """Compared by what its memory can hold, not by its name."""
    small = SPECS["h200"].replace(total_memory_bytes=8 << 30)
    large, little = (observe_virtual(PROGRAMS["out_of_memory"], spec) for spec in (SPECS["h200"], small))
    assert compare(large, little) == []  # the program's limit is in bytes


def test_only_real_devices_are_recorded(prefetch, tmp_path):
    with pytest.raises(ValueError, match=r"only real devices are recorded"):
        save(tmp_path, prefetch)
    assert load_all(tmp_path) == {}
    real = changed(prefetch, lambda o: setattr(o, "device", DeviceFacts("NVIDIA H200", (9, 0), 1 << 37, 132, False)))
    path = save(tmp_path, real)
    assert path == tmp_path / "nvidia-h200" / "two_stream_prefetch.json"
    assert load_all(tmp_path) == {"nvidia-h200/two_stream_prefetch": real}
    path.write_text(json.dumps({**json.loads(path.read_text()), "format": 0}))
    with pytest.raises(ValueError, match=r"format 0.*CUDALENS_RECORD=1"):
        load_all(tmp_path)


def test_slugs():
    assert slug("NVIDIA GeForce RTX 4090") == "nvidia-geforce-rtx-4090"


def test_twins_are_found_by_name_then_by_capability_and_have_the_real_size():
    size = SPECS["h200"].total_memory_bytes - 12345
    twin = twin_of(DeviceFacts(SPECS["h200"].name, (9, 0), size, 132, False))
    assert (twin.key, twin.total_memory_bytes) == ("h200", size)
    cousin = twin_of(DeviceFacts("NVIDIA H100 NVL", (9, 0), SPECS["h100"].total_memory_bytes, 114, False))
    assert (cousin.compute_capability, cousin.name, cousin.num_sms) == ((9, 0), "NVIDIA H100 NVL", 114)
    with pytest.raises(LookupError, match=r"add one to"):
        twin_of(DeviceFacts("NVIDIA B999", (99, 0), size, 132, False))


def test_nothing_is_left_behind(prefetch):
    assert cudalens.virtual.active() is None
    assert torch.ones(1).device.type == "cpu"
