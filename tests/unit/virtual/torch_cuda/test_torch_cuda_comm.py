"""Tensors on several virtual devices: torch.cuda.comm and nn.parallel.comm."""

from __future__ import annotations

import pytest
import torch
from torch.nn.parallel import comm

from cudalens.errors import VirtualDeviceError
from cudalens.virtual import device


@pytest.fixture(autouse=True)
def h100s():
    with device("h100x3") as virtual:
        yield virtual.gpus


def test_broadcast_puts_a_copy_on_each_device():
    tensor = torch.arange(6.0).cuda(1)
    copies = comm.broadcast(tensor, [1, 0, 2])
    assert [copy.device.index for copy in copies] == [1, 0, 2]
    assert copies[0].data_ptr() == tensor.data_ptr()
    assert all(torch.equal(copy.cpu(), torch.arange(6.0)) for copy in copies)
    out = [torch.empty(6, device=f"cuda:{index}") for index in (0, 2)]
    assert comm.broadcast(tensor, out=out)[1] is out[1]
    assert torch.equal(out[1].cpu(), torch.arange(6.0))
    with pytest.raises(RuntimeError, match="Expected all output tensors to be CUDA tensors"):
        comm.broadcast(tensor, out=[torch.empty(6)])
    with pytest.raises(RuntimeError, match="same shape as the source tensor"):
        comm.broadcast(tensor, out=[torch.empty(5, device="cuda")])


def test_broadcast_coalesced_keeps_the_order():
    tensors = [torch.ones(2).cuda(), torch.zeros(3, dtype=torch.int64).cuda()]
    copies = comm.broadcast_coalesced(tensors, [0, 2])
    assert [[copy.dtype for copy in row] for row in copies] == [[torch.float32, torch.int64]] * 2
    assert [row[0].device.index for row in copies] == [0, 2]


@pytest.mark.parametrize(("sizes", "expected"), [(None, [3, 3, 1]), ([1, 1, 5], [1, 1, 5])])
def test_scatter_and_gather_are_inverses(sizes, expected):
    tensor = torch.arange(14.0).reshape(2, 7)
    pieces = comm.scatter(tensor, [0, 1, 2], chunk_sizes=sizes, dim=1)
    assert [piece.shape[1] for piece in pieces] == expected
    assert [piece.device.index for piece in pieces] == [0, 1, 2]
    assert comm.gather(pieces, dim=1, destination=2).device == torch.device("cuda:2")
    assert torch.equal(comm.gather(pieces, dim=1, destination="cpu"), tensor)
    out = torch.empty(2, 7, device="cuda")
    assert torch.equal(comm.gather(pieces, dim=1, out=out).cpu(), tensor)


def test_scatter_into_tensors_that_are_there():
    out = [torch.empty(1, 2, device="cuda:0"), torch.empty(3, 2, device="cuda:1")]
    comm.scatter(torch.arange(8.0).reshape(4, 2), out=out)
    assert torch.equal(out[1].cpu(), torch.arange(2.0, 8.0).reshape(3, 2))


def test_scatter_copies_on_the_streams_that_it_is_given(h100s):
    streams = [torch.cuda.Stream(device=index) for index in range(2)]
    source = torch.zeros(64 << 20, dtype=torch.uint8).pin_memory()
    comm.scatter(source, [0, 1], streams=streams)
    assert [stream.query() for stream in streams] == [False, False]
    assert [torch.cuda.default_stream(index).query() for index in range(2)] == [True, True]


@pytest.mark.parametrize("source", ["cpu", "cuda:0"])
def test_scatter_checks_its_arguments(source):
    tensor = torch.arange(12.0, device=source).reshape(6, 2)
    assert [len(chunk) for chunk in comm.scatter(tensor, [0, 1], chunk_sizes=[2, 4])] == [2, 4]
    with pytest.raises(RuntimeError, match="devices and chunk_sizes to be of same length"):
        comm.scatter(tensor, [0], chunk_sizes=[2, 4])
    with pytest.raises(RuntimeError, match="at least one device to scatter to"):
        comm.scatter(tensor, [])
    with pytest.raises(RuntimeError, match="at least one output tensor to scatter to"):
        comm.scatter(tensor, out=[])
    with pytest.raises(RuntimeError, match="output tensor at index 0 has device 'cpu'"):
        comm.scatter(tensor, out=[torch.empty(6, 2)])
    with pytest.raises(RuntimeError, match="Output tensor at index 0 has incorrect shape"):
        comm.scatter(tensor, out=[torch.empty(6, 3, device="cuda")])
    with pytest.raises(RuntimeError, match=r"Expected 6, but got total size 4"):
        comm.scatter(tensor, out=[torch.empty(4, 2, device="cuda")])
    with pytest.raises(RuntimeError, match="stream at index 0"):
        comm.scatter(tensor, [1, 2], streams=[torch.cuda.Stream(2), None])


def test_gather_keeps_the_memory_format():
    images = [torch.rand(1, 3, 4, 4, device=index).to(memory_format=torch.channels_last) for index in range(2)]
    gathered = comm.gather(images)
    assert gathered.is_contiguous(memory_format=torch.channels_last)
    assert torch.equal(gathered.cpu(), torch.cat([image.cpu() for image in images]))
    assert comm.gather([images[0], images[1].contiguous()]).is_contiguous()


def test_gather_checks_its_arguments():
    first, second = torch.ones(2, 5, device=0), torch.ones(2, 5, device=1)
    with pytest.raises(RuntimeError, match="at least one tensor to gather from"):
        comm.gather([])
    with pytest.raises(RuntimeError, match="tensor at index 0 has device 'cpu'"):
        comm.gather([first.cpu(), second])
    with pytest.raises(RuntimeError, match="same number of dimensions"):
        comm.gather([first, second[0]])
    with pytest.raises(RuntimeError, match="Input tensor at index 1 has invalid shape"):
        comm.gather([first, second[:, 1:]])
    with pytest.raises(RuntimeError, match="Expected out tensor to have shape"):
        comm.gather([first, second], out=torch.empty(3, 5))


def test_reduce_add_sums_on_one_device():
    tensors = [torch.full((4,), float(index), device=f"cuda:{index}") for index in range(3)]
    total = comm.reduce_add(tensors, destination=1)
    assert total.device == torch.device("cuda:1")
    assert total.tolist() == [3.0] * 4


def test_nccl_is_not_available():
    with pytest.raises(VirtualDeviceError, match=r"torch\.cuda\.nccl\.unique_id needs NCCL"):
        torch.cuda.nccl.unique_id()


def test_tuning_is_off():
    assert not torch.cuda.tunable.is_enabled()
    torch.cuda.tunable.enable(False)
    with pytest.raises(VirtualDeviceError, match="TunableOp"):
        torch.cuda.tunable.enable()
