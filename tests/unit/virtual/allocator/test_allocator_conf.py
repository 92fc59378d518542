"""The options' text, against torch's own parser where this torch has it (it is in CPU builds too)."""

from __future__ import annotations

from pathlib import Path
from random import Random

import programs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cudalens.errors import VirtualDeviceError
from cudalens.virtual.allocator import AllocatorConf, conf_from_environment, parse_conf
from cudalens.virtual.allocator.sizes import UNLIMITED, interval_of, round_size

MIB = 1 << 20

# Runs torch's parser in a process of its own, for its options are global, and prints what became of each text.
_ORACLE = """
import ctypes, json, os, sys, torch
library = ctypes.CDLL(os.path.join(os.path.dirname(torch.__file__), "lib", "libc10.so"))
scope = "_ZN3c1016CachingAllocator26AcceleratorAllocatorConfig"
divisions = library[scope + "24roundup_power2_divisionsEm"]
divisions.restype, divisions.argtypes = ctypes.c_size_t, [ctypes.c_size_t]
instance = library[scope + "8instanceEv"]
instance.restype = ctypes.c_void_p
answers = []
for text in json.load(sys.stdin):
    torch._C._accelerator_setAllocatorSettings("large_segment_size_mb:20,expandable_segments:False")
    try:
        torch._C._accelerator_setAllocatorSettings(text)
    except Exception as error:
        answers.append([type(error).__name__, str(error).splitlines()[0]])
        continue
    fields = (ctypes.c_uint64 * 8).from_address(instance())
    real = (ctypes.c_double * 8).from_address(instance())
    answers.append([*fields[:3], [divisions(1 << 20 + i) for i in range(16)], real[6], bool(fields[7] & 255)])
json.dump(answers, sys.stdout)
"""
_FIXED = [
    "",
    "max_split_size_mb:20",
    "max_split_size_mb:64abc",
    "max_split_size_mb:-5",
    "max_split_size_mb:20000000000000",
    "max_split_size_mb:99999999999999999999",
    "max_split_size_mb:abc",
    "max_split_size_mb",
    "max_split_size_mb=32",
    "max_split_size_mb:",
    ":",
    "max_split_size_mb:64,",
    " max_split_size_mb : 64 , expandable_segments : True ",
    "max_split_size_mb;64",
    "max_split_size_mb:1",
    "max_non_split_rounding_mb:40,large_segment_size_mb:32",
    "large_segment_size_mb:64,max_non_split_rounding_mb:40",
    "large_segment_size_mb:11",
    "large_segment_size_mb:10",
    "garbage_collection_threshold:1",
    "garbage_collection_threshold:.5e0z",
    "garbage_collection_threshold:x",
    "expandable_segments:true",
    "expandable_segments:[True]",
    "roundup_power2_divisions:4",
    "roundup_power2_divisions:3",
    "roundup_power2_divisions:0",
    "roundup_power2_divisions:[256:1,512:2,1024:4,>:8]",
    "roundup_power2_divisions:[64:8,128:2,256:2,512:2,1024:1,>:1]",
    "roundup_power2_divisions:[>:4]",
    "roundup_power2_divisions:[1:4,4:2]",
    "roundup_power2_divisions:[131072:4]",
    "roundup_power2_divisions:[300:2]",
    "roundup_power2_divisions:[256:3]",
    "roundup_power2_divisions:[256]",
    "roundup_power2_divisions:[64,8]",
    "roundup_power2_divisions:[64:8 128:2]",
    "roundup_power2_divisions:[64:8,128:2",
    "roundup_power2_divisions:[64:8]xmax_split_size_mb:33",
]


def _random_text(random):
    number = lambda: random.choice(["1", "2", "4", "3", "20", "21", "64", "256", "4096", "0", "0.5", "-1", "x", ""])  # noqa: E731
    pairs = [
        f"{random.choice(['1', '2', '64', '1024', '65536', '99999', '>', '3'])}:{number()}"
        for _ in range(random.randrange(4))
    ]
    options = [
        f"{random.choice(['max_split_size_mb', 'max_non_split_rounding_mb', 'large_segment_size_mb'])}:{number()}",
        f"garbage_collection_threshold:{number()}",
        f"expandable_segments:{random.choice(['True', 'False', '1'])}",
        f"roundup_power2_divisions:{number()}",
        f"roundup_power2_divisions:[{','.join(pairs)}]",
    ]
    return ",".join(random.choices(options, k=random.randrange(1, 4)))


def _torch_result(texts):
    torch = pytest.importorskip("torch")
    if not hasattr(torch._C, "_accelerator_setAllocatorSettings") or not torch.__version__.startswith("2.13"):
        pytest.skip("this torch has no allocator options to compare with, or lays them out otherwise than 2.13")
    if not (Path(torch.__file__).parent / "lib" / "libc10.so").exists():
        pytest.skip("no libc10.so: the options cannot be read back")
    import json

    done = programs.run("-c", _ORACLE, input=json.dumps(texts))
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def _our_result(text):
    try:
        conf = parse_conf(text, AllocatorConf())
    except (ValueError, RuntimeError, IndexError) as error:
        return [type(error).__name__, str(error)]
    return [
        conf.large_segment_size,
        conf.max_split_size,
        conf.max_non_split_rounding,
        list(conf.roundup_power2_divisions),
        conf.garbage_collection_threshold,
        conf.expandable_segments,
    ]


def _agree(ours, torchs):
    if ours[0] == "ValueError" and ours[1].startswith("Unrecognized key"):
        return True  # a CPU build of torch skips unknown options; a CUDA build refuses it
    if isinstance(torchs[0], str):
        return ours[0] == torchs[0] and torchs[1].endswith(ours[1])  # before it: where in torch's source
    return ours == torchs


def test_the_options_are_what_torch_makes_of_the_same_text():
    for text, answer in zip(_FIXED, _torch_result(_FIXED), strict=True):
        assert _agree(_our_result(text), answer), (text, _our_result(text), answer)


def test_random_options_are_what_torch_makes_of_them():
    random = Random(1)
    texts = [_random_text(random) for _ in range(2000)]
    for text, answer in zip(texts, _torch_result(texts), strict=True):
        assert _agree(_our_result(text), answer), (text, _our_result(text), answer)


def test_an_unknown_option_is_refused_with_the_message_of_a_cuda_build():
    with pytest.raises(ValueError, match=r"Unrecognized key 'max_split_size' in Accelerator allocator config\."):
        parse_conf("max_split_size:128")


def test_options_of_pinned_memory_and_of_the_lock_are_taken():
    conf = parse_conf(
        "backend:native,release_lock_on_cudamalloc:True,pinned_num_register_threads:8,pinned_free_catch_all:True"
    )
    assert (conf.release_lock_on_cudamalloc, conf.pinned_num_register_threads) == (True, 8)
    with pytest.raises(ValueError, match="Number of register threads has to be power of 2, got 3"):
        parse_conf("pinned_num_register_threads:3")
    with pytest.raises(ValueError, match="per_process_memory_fraction is invalid, set it in"):
        parse_conf("per_process_memory_fraction:1.5")


@pytest.mark.parametrize(
    "text", ["backend:cudaMallocAsync", "graph_capture_record_stream_reuse:True", "throw_on_cudamalloc_oom:True"]
)
def test_the_error_for_an_option_that_is_not_modelled_states_what_to_do(text):
    with pytest.raises(VirtualDeviceError, match=r"remove it from|set backend:native"):
        parse_conf(text)
    with pytest.raises(ValueError, match="Unknown allocator backend, options are native and cudaMallocAsync"):
        parse_conf("backend:other")


def test_a_change_at_run_time_resets_the_options_that_torch_resets():
    first = parse_conf(
        "max_split_size_mb:64,expandable_segments:True,garbage_collection_threshold:0.5,large_segment_size_mb:32"
    )
    then = parse_conf("roundup_power2_divisions:4", first)
    assert then.max_split_size == UNLIMITED
    assert then.garbage_collection_threshold == 0.0
    assert (then.expandable_segments, then.large_segment_size, then.max_non_split_rounding) == (
        True,
        32 * MIB,
        32 * MIB,
    )
    assert then.text == "roundup_power2_divisions:4"


def test_the_older_variable_wins():
    both = {"PYTORCH_ALLOC_CONF": "max_split_size_mb:40", "PYTORCH_CUDA_ALLOC_CONF": "max_split_size_mb:30"}
    assert conf_from_environment(both).max_split_size == 30 * MIB
    assert conf_from_environment({"PYTORCH_ALLOC_CONF": "max_split_size_mb:40"}).max_split_size == 40 * MIB
    assert conf_from_environment({}) == AllocatorConf()


def test_rounding_to_divisions_of_a_power_of_two():
    four = (4,) * 16
    assert [round_size(n, four) for n in (1200, 4000, 2048, 2049)] == [1536, 4096, 2048, 2560]
    assert round_size(1 << 21 | 1, four) == (1 << 21) + (1 << 19)
    assert round_size(100, four) == 512
    assert round_size(3 << 20, (0,) * 16) == 3 << 20


@given(st.integers(1, 1 << 40), st.sampled_from([0, 1, 2, 4, 8, 16]))
def test_a_rounded_size_holds_the_request_and_is_the_next_step(num_bytes, parts):
    size = round_size(num_bytes, (parts,) * 16)
    assert size >= num_bytes
    if parts > 1 and num_bytes > 512 * parts and num_bytes & (num_bytes - 1):
        floor = 1 << (num_bytes.bit_length() - 1)
        assert size == floor + -(-(num_bytes - floor) * parts // floor) * floor // parts
    elif num_bytes >= 512 and not (parts > 1 and num_bytes > 512 * parts):
        assert size == -(-num_bytes // 512) * 512


def test_intervals():
    assert [interval_of(n) for n in (1, MIB, 2 * MIB - 1, 2 * MIB, 1 << 35, 1 << 40)] == [0, 0, 0, 1, 15, 15]


def test_an_environment_without_caching_is_refused() -> None:
    with pytest.raises(VirtualDeviceError, match="PYTORCH_NO_CUDA_MEMORY_CACHING"):
        conf_from_environment({"PYTORCH_NO_CUDA_MEMORY_CACHING": "0"})
