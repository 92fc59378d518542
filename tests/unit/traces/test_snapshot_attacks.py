"""Malicious pickles in place of memory snapshots: each is refused, and nothing of it is run."""

import builtins
import io
import os
import pickle
import struct
import subprocess
import tracemalloc

import pytest
from budget import examples
from hypothesis import given, settings
from hypothesis import strategies as st

import cudalens
from cudalens.errors import TraceFormatError, UnsafeSnapshotError
from cudalens.traces.safe_pickle import scan

MARKER = "CUDALENS_TEST_SNAPSHOT_ATTACK"
SNAPSHOT = {"segments": [], "device_traces": [[]]}
CALL = f"__import__('os').environ.__setitem__('{MARKER}', '1')"


class Gadget:
    """Calls `function` with `arguments` when it is unpickled in an ordinary way."""

    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


class Rebuilt:
    def __setstate__(self, state):
        os.environ[MARKER] = "1"


class Made:
    def __new__(cls, *args, **kwargs):
        os.environ[MARKER] = "1"
        return super().__new__(cls)

    def __getnewargs_ex__(self):
        return (1,), {"a": 2}


class WithId(pickle.Pickler):
    def persistent_id(self, obj):
        return "an id" if obj == "by id" else None


def dumped(value, protocol=4):
    return pickle.dumps({**SNAPSHOT, "extra": value}, protocol)


def by_id(protocol):
    sink = io.BytesIO()
    WithId(sink, protocol).dump({**SNAPSHOT, "extra": "by id"})
    return sink.getvalue()


def inside(instructions):
    """A snapshot with a field whose value is made by `instructions`."""
    return b"\x80\x04}(\x8c\x08segments]\x8c\x05extra" + instructions + b"u."


def text(value):
    return b"\x8c" + bytes([len(value)]) + value


STACK_GLOBAL = text(b"builtins") + text(b"eval") + b"\x93"
ARGUMENT = text(CALL.encode())
GADGETS = {
    "eval": (dumped(Gadget(builtins.eval, CALL)), "STACK_GLOBAL", "builtins.eval"),
    "exec, protocol 5": (dumped(Gadget(builtins.exec, CALL), 5), "STACK_GLOBAL", "builtins.exec"),
    "eval, protocol 2": (dumped(Gadget(builtins.eval, CALL), 2), "GLOBAL", "eval"),
    "os.system": (dumped(Gadget(os.system, "true")), "STACK_GLOBAL", "posix.system"),
    "popen": (dumped(Gadget(subprocess.Popen, ["true"])), "STACK_GLOBAL", "subprocess.Popen"),
    "getattr": (dumped(Gadget(getattr, "", "join")), "STACK_GLOBAL", "builtins.getattr"),
    "state": (dumped(Rebuilt()), "STACK_GLOBAL", "Rebuilt"),
    "new": (dumped(Made()), "STACK_GLOBAL", "Made"),
    "new with names, protocol 2": (dumped(Made(), 2), "GLOBAL", ""),
    "an exception": (dumped(ValueError("x")), "STACK_GLOBAL", "builtins.ValueError"),
    "a harmless class": (dumped(complex(1, 2)), "STACK_GLOBAL", "builtins.complex"),
    "as a key": (pickle.dumps({**SNAPSHOT, Gadget(builtins.eval, CALL): 1}, 4), "STACK_GLOBAL", "builtins.eval"),
    "in a row": (pickle.dumps({"segments": [Gadget(builtins.eval, CALL)]}, 4), "STACK_GLOBAL", "builtins.eval"),
    "the whole": (pickle.dumps(Gadget(builtins.eval, CALL), 4), "STACK_GLOBAL", "builtins.eval"),
    "persistent id": (by_id(2), "BINPERSID", ""),
    "persistent id as text": (inside(b"Pan id\n"), "PERSID", ""),
    "INST": (inside(b"(" + ARGUMENT + b"ibuiltins\neval\n"), "INST", "builtins.eval"),
    "OBJ": (inside(b"(" + STACK_GLOBAL + ARGUMENT + b"o"), "STACK_GLOBAL", "builtins.eval"),
    "OBJ of nothing": (inside(b"(}o"), "OBJ", ""),
    "REDUCE of nothing": (inside(b"}}R"), "REDUCE", ""),
    "BUILD of nothing": (inside(b"}}b"), "BUILD", ""),
    "NEWOBJ of nothing": (inside(b"}}\x81"), "NEWOBJ", ""),
    "NEWOBJ_EX of nothing": (inside(b"}}}\x92"), "NEWOBJ_EX", ""),
    "EXT1": (inside(b"\x82\x01"), "EXT1", "copyreg"),
    "EXT2": (inside(b"\x83\x01\0"), "EXT2", "copyreg"),
    "EXT4": (inside(b"\x84\x01\0\0\0"), "EXT4", "copyreg"),
    "a global by long texts": (inside(b"X\x08\0\0\0builtinsX\x04\0\0\0eval\x93"), "STACK_GLOBAL", "builtins.eval"),
    "a global by the memo": (inside(text(b"os") + b"\x94" + text(b"system") + b"\x94h\0h\1\x93"), "STACK_GLOBAL", ""),
    "after the frame": (b"\x80\x04\x95\x02\0\0\0\0\0\0\0}\x94" + STACK_GLOBAL + b".", "STACK_GLOBAL", "builtins.eval"),
}
DEEP = 200_000
BOMBS = {
    "a long integer": (inside(b"\x8b\xff\xff\xff\x7f"), "LONG4"),
    "a negative length": (inside(b"\x8b\xff\xff\xff\xff"), "LONG4"),
    "an integer of 255 bytes": (inside(b"\x8a\xff" + b"\1" * 255), "LONG1"),
    "long bytes": (inside(b"B\xff\xff\xff\x7f"), "BINBYTES"),
    "longer bytes": (inside(b"\x8e" + struct.pack("<Q", 1 << 60)), "BINBYTES8"),
    "a long bytearray": (inside(b"\x96" + struct.pack("<Q", 1 << 60)), "BYTEARRAY8"),
    "a buffer that is nowhere": (inside(b"\x97"), "NEXT_BUFFER"),
    "long text": (inside(b"X\xff\xff\xff\xff"), "BINUNICODE"),
    "longer text": (inside(b"\x8d" + struct.pack("<Q", 1 << 60)), "BINUNICODE8"),
    "a long frame": (b"\x80\x04\x95" + struct.pack("<Q", 1 << 62) + b"}.", "FRAME"),
    "a far place of the memo": (inside(b"]r\xff\xff\xff\x7f"), "LONG_BINPUT"),
    "a far place of the memo, as text": (inside(b"]p4294967295\n"), "PUT"),
    "a number as text": (inside(b"I" + b"9" * 100_000 + b"\n"), "INT"),
    "a long number as text": (inside(b"L" + b"9" * 100_000 + b"L\n"), "LONG"),
    "nested tuples": (inside(b")" + b"\x85" * DEEP), None),
    "nested tuples as a key": (b"\x80\x04}K\x01" + b"\x85" * DEEP + b"Ns.", "TUPLE1"),
    "tuples that double": (inside(b"K\x01\x85\x94" + b"".join(b"h%c\x86\x94" % i for i in range(60))), None),
    "nested tuples by marks": (inside(b"(" * DEEP + b"t" * DEEP), "TUPLE"),
    "a set": (inside(b"\x8f"), "EMPTY_SET"),
    "a frozen set": (inside(b"(\x91"), "FROZENSET"),
    "copies of the top": (inside(b"]" + b"2" * 1000), "DUP"),
    "what is popped": (inside(b"]0]"), "POP"),
    "empty lists alone": (inside(b"(" + b"]" * 1_000_000 + b"e"), None),
    "empty dicts alone": (b"\x80\x04" + b"}" * 1_000_000 + b".", None),
    "nested lists": (inside(b"]\x94" * 60_000 + b"a" * 59_999), None),
    "nested dicts": (inside((b"}" + text(b"some key")) * 60_000 + b"N" + b"s" * 60_000), None),
    "a list in itself": (inside(b"]\x94h\0a"), None),
    "a dict in itself": (inside(b"}\x94" + text(b"k") + b"h\0s"), None),
}


def doubling(levels):
    """A value of `levels` lists, each of which contains the previous one twice: 2 ** levels leaves in a small file."""
    value = ["leaf"]
    for _ in range(levels):
        value = [value, value]
    return value


BOMBS["lists that double"] = dumped(doubling(30)), None
BOMBS["wide lists that square"] = dumped([[[["leaf"] * 1000] * 1000] * 1000] * 1000), None
SEGMENT = {"address": 0, "total_size": 512, "blocks": [{"size": 512, "state": "inactive"}] * 5000}
BOMBS["segments that are one"] = pickle.dumps({"segments": [SEGMENT] * 5000}, 4), None
BOMBS["histories that are one"] = (
    pickle.dumps({"segments": [], "device_traces": [[{"action": "alloc"}] * 5000] * 5000}, 4),
    None,
)


@pytest.fixture(autouse=True)
def nothing_runs(monkeypatch):
    """No class is looked up, no extension code resolved, and the gadgets leave no mark."""
    monkeypatch.delenv(MARKER, raising=False)
    yield
    assert MARKER not in os.environ


def written(tmp_path, data):
    path = tmp_path / "attack.pickle"
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("name", GADGETS)
def test_what_would_run_is_refused(tmp_path, name):
    data, opcode, what = GADGETS[name]
    with pytest.raises(UnsafeSnapshotError) as raised:
        cudalens.load(written(tmp_path, data))
    error = raised.value
    if opcode is not None:
        assert error.opcode == opcode
    assert error.opcode is not None
    assert getattr(pickle, error.opcode)[0] == data[error.byte]
    assert error.position == f"byte {error.byte}"
    message = str(error)
    assert error.opcode in message
    assert what in message
    assert "attack.pickle" in message
    assert "_dump_snapshot" in message


@pytest.mark.parametrize("name", BOMBS)
def test_what_would_exhaust_is_refused_cheaply(tmp_path, name):
    data, opcode = BOMBS[name]
    path = written(tmp_path, data)
    tracemalloc.start()
    try:
        with pytest.raises(UnsafeSnapshotError) as raised:
            cudalens.load(path)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    if opcode is not None:
        assert raised.value.opcode == opcode
        assert data[raised.value.byte] == getattr(pickle, opcode)[0]
    assert peak < 64 * len(data) + (96 << 20)


def test_the_gadgets_are_loaded():
    """The attacks of the other tests do run in an ordinary unpickler."""
    pickle.loads(GADGETS["eval"][0])
    assert os.environ.pop(MARKER) == "1"


def test_an_extension_that_is_cached_is_refused_too(tmp_path, monkeypatch):
    import copyreg

    copyreg.add_extension("builtins", "eval", 240)
    try:
        assert pickle.loads(b"\x80\x02\x82\xf0.") is eval  # now it is in the cache, which no find_class guards
        with pytest.raises(UnsafeSnapshotError, match="EXT1"):
            cudalens.load(written(tmp_path, inside(b"\x82\xf0" + b"(" + ARGUMENT + b"tR")))
    finally:
        copyreg.remove_extension("builtins", "eval", 240)
        copyreg.clear_extension_cache()


def test_control_characters_in_a_name_are_shown_escaped(tmp_path):
    with pytest.raises(UnsafeSnapshotError) as raised:
        cudalens.load(written(tmp_path, inside(text(b"\x1b[31mos") + text(b"\x00<b>") + b"\x93")))
    assert "\x1b" not in str(raised.value)
    assert "\\x1b[31mos.\\x00<b>" in str(raised.value)


@pytest.mark.parametrize(
    "data", [b"\x80", b"\x80\x04", b"\x80\x04}", b"\x80\x04\x8c", b"\x80\x04X\x05", b"\x80\x04\x8c\x09abc"]
)
def test_a_cut_file_is_called_so(tmp_path, data):
    with pytest.raises(TraceFormatError) as raised:
        cudalens.load(written(tmp_path, data))
    assert not isinstance(raised.value, UnsafeSnapshotError)


@pytest.mark.parametrize(
    "data", [b"\x80\x04.", b"\x80\x04e.", b"\x80\x04h\x05.", b"\x80\x04}]]s.", b"\x80\x04(.", b"\x80\x04]NNs."]
)
def test_a_broken_pickle_is_called_so(tmp_path, data):
    with pytest.raises(TraceFormatError, match="found"):
        cudalens.load(written(tmp_path, data))


@pytest.mark.parametrize("protocol", [0, 1, 6, 255])
def test_other_protocols_are_called_so(tmp_path, protocol):
    data = pickle.dumps(SNAPSHOT, protocol) if protocol < 2 else bytes([0x80, protocol]) + b"}."
    with pytest.raises(TraceFormatError):
        cudalens.load(written(tmp_path, data))


plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats()
    | st.text()
    | st.tuples(*[st.integers(0, 99)] * 2),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(), inner, max_size=5),
    max_leaves=30,
)


@settings(max_examples=examples(200))
@given(plain, st.sampled_from([2, 3, 4, 5]))
def test_plain_values_pass(value, protocol):
    data = pickle.dumps({"a": value, "b": [value]}, protocol)
    assert scan("x", data) == len(data)


OPENING = st.sampled_from([b"\x80\x02", b"\x80\x04", b"\x80\x04}(", b"\x80\x04](", b"\x80\x04}\x8c\x01a"])
PIECES = st.lists(
    st.sampled_from([bytes([op[0]]) for op in vars(pickle).values() if isinstance(op, bytes) and len(op) == 1])
    | st.binary(max_size=4)
    | st.sampled_from([b"\x8c\x02os", b"\x8c\x06system", b"cos\nsystem\n", b"K\x01", b"h\0", b"q\0"]),
    max_size=20,
)


@settings(max_examples=examples(300))
@given(OPENING, PIECES)
def test_whatever_passes_the_scan_names_no_class(opening, pieces):
    """A pickle that passes the scan has only admitted instructions, according to Python's disassembler."""
    import pickletools

    data = opening + b"".join(pieces) + b"."
    try:
        end = scan("x", data)
    except TraceFormatError:
        return
    used = {op.name for op, _, _ in pickletools.genops(data[:end])}
    assert used <= {
        *("PROTO", "FRAME", "STOP", "MARK", "EMPTY_DICT", "EMPTY_LIST", "APPEND", "APPENDS", "SETITEM", "SETITEMS"),
        *("NONE", "NEWTRUE", "NEWFALSE", "MEMOIZE", "BINPUT", "LONG_BINPUT", "BINGET", "LONG_BINGET", "TUPLE2"),
        *("BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT", "SHORT_BINUNICODE", "BINUNICODE"),
    }
