"""Every spelling of a device, for whatever takes one: functions and methods are those of torch's own signatures."""

from __future__ import annotations

import inspect
import io
import typing

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils._device import _device_constructors, device_decorator

from cudalens.virtual import device

pytestmark = pytest.mark.filterwarnings("ignore:torch.range is deprecated")

SPELLINGS = {
    "text": ("cuda", 0),
    "text with index": ("cuda:1", 1),
    "torch.device": (lambda: torch.device("cuda"), 0),
    "torch.device with index": (lambda: torch.device("cuda", 1), 1),
    "keywords": (lambda: torch.device(type="cuda", index=1), 1),
    "torch.device of an index": (lambda: torch.device(1), 1),
    "index": (1, 1),
    "first index": (0, 0),
    "current device": (lambda: torch.cuda.current_device(), 0),
    "a tensor's": (lambda: torch.ones(1, device="cuda:1").device, 1),
    "host": ("cpu", None),
    "host device": (lambda: torch.device("cpu"), None),
}


@pytest.fixture(autouse=True)
def _gpus():
    with device("h100x2"):
        yield


@pytest.fixture(params=SPELLINGS.values(), ids=SPELLINGS)
def spelling(request):
    """A spelling, and the device that it means."""
    return meaning(*request.param)


def meaning(given, index):
    return (given() if callable(given) else given), torch.device("cpu") if index is None else torch.device(
        "cuda", index
    )


def wrong(names, is_right):
    """Those of `names` for which `is_right` raises or gives False, with the error."""
    found = {}
    for name in names:
        try:
            if not is_right(name):
                found[name] = "another device"
        except Exception as error:
            found[name] = repr(error)
    return found


# torch.device itself


@pytest.mark.parametrize(
    "make", [lambda: torch.device(1), lambda: torch.device(device=1), lambda: torch.device(np.int32(1))]
)
def test_an_index_alone_is_a_device_of_the_accelerator(make):
    assert make() == torch.device("cuda", 1)


def test_a_negative_index_is_refused_as_torch_does():
    with pytest.raises(RuntimeError, match="negative"):
        torch.device(-1)


# Operators: all whose schema has a device

T = torch.tensor
LIKE = lambda: torch.ones(2, 3)  # noqa: E731
INDICES, VALUES, ROWS = [[0, 1], [1, 0]], [1.0, 2.0], [0, 1, 2]
BLOCKS = [[[1.0]], [[2.0]]]
ARGUMENTS = {
    "arange": (5,),
    "bartlett_window": (5,),
    "blackman_window": (5,),
    "empty": (2, 3),
    "empty_like": (LIKE,),
    "empty_permuted": ((2, 3), (1, 0)),
    "empty_strided": ((2, 3), (3, 1)),
    "eye": (3,),
    "fft_fftfreq": (5,),
    "fft_rfftfreq": (5,),
    "full": ((2, 3), 1.5),
    "full_like": (LIKE, 1.5),
    "hamming_window": (5,),
    "hann_window": (5,),
    "kaiser_window": (5,),
    "linspace": (0, 1, 5),
    "logspace": (0, 1, 5),
    "normal": (0.0, 1.0, (3,)),
    "ones": (2, 3),
    "ones_like": (LIKE,),
    "rand": (2, 3),
    "rand_like": (LIKE,),
    "randint": (5, (2, 3)),
    "randint_like": (LIKE, 5),
    "randn": (2, 3),
    "randn_like": (LIKE,),
    "randperm": (5,),
    "range": (0, 4),
    "scalar_tensor": (2.0,),
    "tensor": ([1.0, 2.0],),
    "as_tensor": ([1.0, 2.0],),
    "asarray": ([1.0, 2.0],),
    "tril_indices": (3, 3),
    "triu_indices": (3, 3),
    "zeros": (2, 3),
    "zeros_like": (LIKE,),
    "new_empty": (LIKE, (2,)),
    "new_empty_strided": (LIKE, (2,), (1,)),
    "new_full": (LIKE, (2,), 1.5),
    "new_ones": (LIKE, (2,)),
    "new_zeros": (LIKE, (2,)),
    "new_tensor": (LIKE, [1.0, 2.0]),
    "to": (LIKE,),
    "_efficientzerotensor": ((2,),),
}
NOT_HERE = {
    "Generator": "below, with generators",
    "from_file": "reads a file; below",
    "is_pinned": "the device is the one that memory is pinned for",
    "pin_memory": "the device is the one that memory is pinned for",
    "eq": "compares devices in TorchScript",
    "ne": "compares devices in TorchScript",
    **{
        f"sparse_{layout}_tensor": "sparse tensors have tests of their own"
        for layout in ("bsc", "bsr", "compressed", "coo", "csc", "csr")
    },
    "empty_quantized": "quantized tensors on CUDA are not modelled",
}


def function_of(name):
    for owner, attribute in ((torch, name), (torch.fft, name.removeprefix("fft_")), (torch.Tensor, name)):
        if hasattr(owner, attribute):
            return getattr(owner, attribute)
    return None


def operators_with_device():
    """Public operators with a ``device`` argument, from the schemas of torch."""
    names = {
        schema.name.removeprefix("aten::")
        for schema in torch._C._jit_get_all_schemas()
        if schema.name.startswith("aten::")
        and any("Device" in str(a.type) for a in schema.arguments)
        and not schema.name.startswith("aten::_")
    }
    return sorted(name for name in names if function_of(name) is not None)


def filled(arguments):
    return [a() if a is LIKE else a for a in arguments]


def test_every_operator_with_a_device_is_tried():
    assert set(operators_with_device()) - set(ARGUMENTS) - set(NOT_HERE) == set()


def call(name, **kwargs):
    return function_of(name)(*filled(ARGUMENTS[name]), **kwargs)


def test_operators_take_every_spelling(spelling):
    given, expected = spelling
    assert wrong(ARGUMENTS, lambda name: call(name, device=given).device == expected) == {}


def test_an_index_may_be_an_integer_of_numpy():
    assert wrong(ARGUMENTS, lambda name: call(name, device=np.int64(1)).device == torch.device("cuda", 1)) == {}


def test_operators_follow_the_current_device():
    with torch.cuda.device(1):
        assert wrong(ARGUMENTS, lambda name: call(name, device="cuda").device == torch.device("cuda", 1)) == {}


def follows_default_device(name):
    """Whether torch's default device reaches it: `torch.range` is listed, and torch's modes do not see it."""
    return LIKE not in ARGUMENTS[name] and function_of(name) in _device_constructors() and name != "range"


MAKES_NEW = sorted(filter(follows_default_device, ARGUMENTS))


def test_factories_follow_the_default_device(spelling):
    given, expected = spelling
    with torch.device(given):
        assert wrong(MAKES_NEW, lambda name: call(name).device == expected) == {}
    torch.set_default_device(given)
    try:
        assert torch.get_default_device().type == expected.type
        assert wrong(MAKES_NEW, lambda name: call(name).device == expected) == {}
    finally:
        torch.set_default_device(None)
    assert wrong(MAKES_NEW, lambda name: call(name).device == torch.device("cpu")) == {}


def test_a_file_is_mapped_on_the_host_alone(tmp_path):
    path = tmp_path / "values"
    path.write_bytes(b"\0" * 16)
    assert torch.from_file(str(path), size=4, device="cpu").device == torch.device("cpu")


def test_a_default_device_is_that_of_its_block_alone():
    assert device_decorator(torch.device(1), lambda: torch.ones(2))().device == torch.device("cuda", 1)
    assert torch.ones(2).device == torch.device("cpu")
    with torch.device("cuda"), torch.device("cpu"):
        assert torch.ones(2).device == torch.device("cpu")


# Tensor methods


MOVES = {
    "to": lambda t, d: t.to(d),
    "to, by name": lambda t, d: t.to(device=d),
    "to with a dtype": lambda t, d: t.to(d, torch.float64),
    "to with a dtype, by name": lambda t, d: t.to(device=d, dtype=torch.float64),
    "to with all": lambda t, d: t.to(d, torch.float64, True, True, memory_format=torch.preserve_format),
    "to another": lambda t, d: t.to(torch.ones(1, device=d)),
    "to another, by name": lambda t, d: t.to(other=torch.ones(1, device=d)),
    "to another, with all": lambda t, d: t.to(torch.ones(1, device=d), True, True),
    "type": lambda t, d: t.type(
        "torch.cuda.FloatTensor" if torch.ones(1, device=d).is_cuda else "torch.FloatTensor"
    ).to(d),
    "operator": lambda t, d: torch.ops.aten.to.device(t, torch.ones(1, device=d).device, torch.float32),
    "operator with another": lambda t, d: torch.ops.aten.to.other(t, torch.ones(1, device=d)),
    "operator with a layout": lambda t, d: torch.ops.aten.to.dtype_layout(t, device=torch.ones(1, device=d).device),
    "operator, by name": lambda t, d: torch.ops.aten._to_copy(t, device=torch.ones(1, device=d).device),
}


def moves(move, given, expected, source):
    x = torch.arange(4.0).to(source).requires_grad_()
    moved = move(x, given)
    moved.square().sum().backward()
    values = moved.tolist() == [0.0, 1.0, 2.0, 3.0] and x.grad.tolist() == [0.0, 2.0, 4.0, 6.0]
    is_moved = moved.device == expected and x.grad.device == x.device == torch.device(source)
    plain = move(x.detach(), given)  # of a tensor without a gradient
    return values and is_moved and plain.device == expected and plain.tolist() == [0.0, 1.0, 2.0, 3.0]


@pytest.mark.parametrize("source", ["cpu", "cuda:0", "cuda:1"])
def test_tensors_and_their_gradients_move(spelling, source):
    assert wrong(MOVES, lambda name: moves(MOVES[name], *spelling, source)) == {}


def test_cuda_takes_every_spelling_of_a_gpu(spelling):
    given, expected = spelling
    if expected.type == "cpu":
        with pytest.raises(RuntimeError, match="Invalid device, must be cuda device"):
            torch.ones(2).cuda(given)
        return
    assert torch.ones(2).cuda(given).device == expected
    assert torch.ones(2).cuda(device=given).device == expected
    assert nn.Linear(2, 2).cuda(given).weight.device == expected
    assert nn.Linear(2, 2).cuda(device=given).weight.device == expected
    assert torch.UntypedStorage(4).cuda(given).device == expected


# Modules


def calls_of(overload, given):
    """Arguments for an overload of ``Module.to``, by position and by name."""
    values = {
        "device": given,
        "dtype": torch.float64,
        "non_blocking": True,
        "tensor": torch.ones(1, dtype=torch.float64, device=given),
    }
    names = [name for name in inspect.signature(overload).parameters if name != "self"]
    for count in range(1, len(names) + 1):
        yield [values[name] for name in names[:count]], {}
        for position in range(count):
            chosen = names[:count]
            yield [values[name] for name in chosen[:position]], {name: values[name] for name in chosen[position:]}


def test_modules_take_every_overload_of_to(spelling):
    given, expected = spelling
    overloads = typing.get_overloads(nn.Module.to) if hasattr(typing, "get_overloads") else []
    if not overloads:
        pytest.skip("this Python does not keep overloads (3.11 does)")
    for overload in overloads:
        names = inspect.signature(overload).parameters
        if "memory_format" in names:  # it takes no device, and no argument by position, as its overload has it
            continue
        for args, kwargs in calls_of(overload, given):
            module = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2)).to(*args, **kwargs)
            where = expected if {"device", "tensor"} & set(names) else torch.device("cpu")
            tensors = [*module.parameters(), *module.buffers()]
            assert {t.device for t in tensors} == {where}, (args, kwargs)


MODULE_MOVES = {
    "to": lambda m, d: m.to(d),
    "to, by name": lambda m, d: m.to(device=d),
    "to a tensor's": lambda m, d: m.to(torch.ones(1, device=d)),
    "to a tensor's, by name": lambda m, d: m.to(tensor=torch.ones(1, device=d)),
    "to with a memory format": lambda m, d: m.to(d, memory_format=torch.channels_last),
    "to_empty": lambda m, d: m.to_empty(device=d),
    "to_empty from meta": lambda m, d: m.to("meta").to_empty(device=d),
}


def test_modules_move_with_parameters_gradients_and_buffers(spelling):
    given, expected = spelling
    for name, move in MODULE_MOVES.items():
        module = nn.Sequential(nn.Conv2d(1, 2, 1), nn.BatchNorm2d(2))
        module(torch.ones(2, 1, 2, 2)).sum().backward()
        assert move(module, given) is module
        assert {t.device for t in (*module.parameters(), *module.buffers())} == {expected}, name
        assert {p.grad.device for p in module.parameters() if p.grad is not None} <= {expected}, name
        if "meta" not in name:
            module(torch.ones(2, 1, 2, 2, device=expected)).sum().backward()


CANDIDATES = [
    (),
    (4,),
    (4, 4),
    (4, 4, 1),
    (2, 4, 8),
    (4, 4, 4),
    (4, 2, 8),
    ([2, 4],),
    (nn.TransformerEncoderLayer, 2),
    (64, 16, [4, 8]),
    ("LSTM", 4, 4),
    (4, 4, True, 4),
]


def modules_with_device():
    return sorted(
        (
            kind
            for kind in vars(nn).values()
            if isinstance(kind, type) and issubclass(kind, nn.Module) and "device" in inspect.signature(kind).parameters
        ),
        key=lambda kind: kind.__name__,
    )


def made(kind, given):
    for arguments in CANDIDATES:
        try:
            kind(*arguments)
        except (TypeError, ValueError, AssertionError, RuntimeError, AttributeError, IndexError):
            continue
        return kind(*arguments, device=given)
    raise AssertionError(f"no arguments known for {kind.__name__}")


@pytest.mark.parametrize(("given", "index"), [("cuda:1", 1), (1, 1), (torch.device("cuda"), 0)])
def test_modules_are_made_on_the_given_device(given, index):
    def is_there(kind):
        module = made(kind, given)
        return {t.device for t in (*module.parameters(), *module.buffers())} <= {torch.device("cuda", index)}

    assert wrong(modules_with_device(), is_there) == {}


def test_packed_sequences_move(spelling):
    given, expected = spelling
    packed = nn.utils.rnn.pack_sequence([torch.ones(3, 2), torch.ones(2, 2)])
    for moved in (packed.to(given), packed.to(device=given), packed.to(torch.ones(1, device=given))):
        assert moved.data.device == expected
        assert moved.batch_sizes.device == torch.device("cpu")


# Storages and generators


def test_storages_take_every_spelling(spelling):
    given, expected = spelling
    assert torch.UntypedStorage(4).to(device=given).device == expected
    assert torch.UntypedStorage(8, device=given).device == expected
    assert torch.UntypedStorage(8, device=given).nbytes() == 8
    assert torch.UntypedStorage(device=given).nbytes() == 0
    assert torch.UntypedStorage([1, 2, 3], device=given).tolist() == [1, 2, 3]


@pytest.mark.filterwarnings("ignore:TypedStorage is deprecated")
def test_typed_storages_take_every_spelling(spelling):
    given, expected = spelling
    storage = torch.TypedStorage(4, dtype=torch.float32, device=given)
    assert (storage.device, storage.nbytes()) == (expected, 16)
    assert torch.TypedStorage([1.0, 2.0], dtype=torch.float32, device=given).tolist() == [1.0, 2.0]


def test_a_storage_of_a_device_counts_in_the_allocator():
    before = torch.cuda.memory_allocated()
    storage = torch.UntypedStorage(1 << 20, device="cuda")
    assert torch.cuda.memory_allocated() - before == 1 << 20
    filled = torch.empty(0, dtype=torch.uint8, device="cuda").set_(storage)
    assert filled.device == torch.device("cuda", 0)
    del storage, filled
    assert torch.cuda.memory_allocated() == before


def test_generators_take_every_spelling(spelling):
    given, expected = spelling
    for generator in (torch.Generator(given), torch.Generator(device=given)):
        assert generator.device == expected
        assert torch.rand(2, generator=generator, device=given).device == expected


# Files and state dicts


@pytest.mark.parametrize("source", ["cpu", "cuda:0", "cuda:1"])
def test_loading_maps_to_every_spelling(source, spelling):
    given, expected = spelling
    file = io.BytesIO()
    torch.save({"w": torch.arange(3.0).to(source)}, file)
    # torch itself takes text and torch.device here, and text alone in a dictionary.
    for place in (torch.device(given) if isinstance(given, int) else given, {source: str(expected)}):
        file.seek(0)
        loaded = torch.load(file, map_location=place)["w"]
        assert (loaded.device, loaded.tolist()) == (expected, [0.0, 1.0, 2.0])
    file.seek(0)
    assert torch.load(file, map_location=lambda storage, where: storage)["w"].device == torch.device("cpu")


@pytest.mark.parametrize("assign", [False, True])
def test_a_state_dict_goes_to_its_modules_device_or_brings_its_own(assign, spelling):
    given, expected = spelling
    source = nn.Linear(3, 2)
    target = nn.Linear(3, 2).to(given)
    target.load_state_dict(source.state_dict(), assign=assign)
    assert target.weight.device == (torch.device("cpu") if assign else expected)
    assert torch.equal(target.weight.cpu(), source.weight)


# torch.cuda, torch.accelerator and other modules


def cuda_functions():
    """Functions of torch.cuda that ask about a device, which they take first."""
    asking = (
        "get_device_",
        "memory_allocated",
        "memory_reserved",
        "max_memory",
        "current_stream",
        "default_stream",
        "synchronize",
        "mem_get_info",
        "reset_peak_memory_stats",
        "memory_stats",
        "get_rng_state",
        "can_device",
    )
    found = {}
    for name, function in vars(torch.cuda).items():
        if not name.startswith(asking) or not inspect.isfunction(function):
            continue
        names = list(inspect.signature(function).parameters)
        if names and names[0] == "device" and len(names) == 1:
            found[name] = function
    return found


def test_functions_of_torch_cuda_take_every_spelling(spelling):
    given, expected = spelling
    if expected.type == "cpu":
        return
    torch.cuda.init()
    functions = cuda_functions()
    assert len(functions) > 15
    assert wrong(functions, lambda name: repr(functions[name](given)) == repr(functions[name](expected))) == {}
    assert wrong(functions, lambda name: repr(functions[name](device=given)) == repr(functions[name](expected))) == {}


def test_streams_events_and_devices_take_every_spelling(spelling):
    given, expected = spelling
    if expected.type == "cpu":
        return
    assert torch.cuda.Stream(given).device == expected
    assert torch.Stream(given).device == expected
    assert torch.Stream(device=given).device == expected
    with torch.cuda.device(given):
        assert torch.cuda.current_device() == expected.index
    torch.cuda.set_device(given if str(given) != "cuda" else 0)  # torch itself wants an index here
    try:
        assert torch.cuda.current_device() == expected.index
    finally:
        torch.cuda.set_device(0)
    assert torch.get_device_module(torch.device(given)) is torch.cuda


@pytest.fixture
def _group():
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    yield
    torch.distributed.destroy_process_group()


@pytest.mark.usefixtures("_group")
def test_device_meshes_and_their_tensors_are_on_the_device():
    from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
    from torch.distributed.tensor import Replicate, Shard, distribute_module, distribute_tensor
    from torch.distributed.tensor import zeros as sharded_zeros

    here = torch.device("cuda", torch.cuda.current_device())
    for mesh in (init_device_mesh("cuda", (1,)), DeviceMesh("cuda", [0]), DeviceMesh("cuda", torch.tensor([0]))):
        assert mesh.device_type == "cuda"
        for source in (torch.arange(4.0), torch.arange(4.0, device="cuda")):
            for placement in (Shard(0), Replicate()):
                spread = distribute_tensor(source, mesh, [placement])
                assert spread.device == spread.to_local().device == spread.full_tensor().device == here
                assert spread.full_tensor().tolist() == [0.0, 1.0, 2.0, 3.0]
                assert (spread * 2).to_local().device == here
        assert sharded_zeros(4, device_mesh=mesh, placements=[Shard(0)]).to_local().device == here
        module = distribute_module(nn.Linear(2, 2), mesh)
        assert module.weight.to_local().device == here
