"""Sparse tensors on a virtual device: values as on the host, memory and devices as on a GPU."""

from __future__ import annotations

import io

import pytest
import torch

from cudalens.virtual import device

pytestmark = [
    pytest.mark.filterwarnings("ignore:Sparse (CSR|CSC) tensor support:UserWarning"),
    pytest.mark.filterwarnings("ignore:Sparse invariant checks:UserWarning"),
]

CUDA = torch.device("cuda", 0)
LAYOUTS = [torch.sparse_coo, torch.sparse_csr, torch.sparse_csc]


@pytest.fixture(autouse=True)
def _gpu():
    with device("h100x2"):
        yield


def dense_matrix(*, where="cpu"):
    generator = torch.Generator().manual_seed(0)
    matrix = torch.rand(6, 8, generator=generator)
    return (matrix * (matrix > 0.6)).to(where)


def sparse_matrix(layout=torch.sparse_coo, where="cuda"):
    return dense_matrix(where=where).to_sparse(layout=layout)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_sparse_tensor_goes_to_the_device_and_back(layout):
    host = dense_matrix().to_sparse(layout=layout)
    there = host.cuda()
    assert there.device == CUDA
    assert there.is_cuda
    assert there.values().device == CUDA if layout is not torch.sparse_coo else there._values().device == CUDA
    assert there.to("cuda:1").device == torch.device("cuda:1")
    back = there.cpu()
    assert back.device.type == "cpu"
    assert torch.equal(back.to_dense(), dense_matrix())
    assert torch.equal(there.to_dense().cpu(), dense_matrix())
    assert there.to(torch.float64).device == CUDA


@pytest.mark.parametrize("layout", LAYOUTS)
def test_products(layout):
    right = torch.arange(24.0).reshape(8, 3)
    expected = dense_matrix() @ right
    assert torch.allclose((sparse_matrix(layout) @ right.cuda()).cpu(), expected)


def test_memory_is_that_of_indices_and_values():
    before = torch.cuda.memory_allocated()
    made = torch.sparse_coo_tensor(
        torch.tensor([[0, 5, 9], [1, 2, 3]], device="cuda"), torch.ones(3, 200, device="cuda"), (10, 10, 200)
    )
    assert made.device == CUDA
    assert torch.cuda.memory_allocated() - before == 512 + 2560  # 48 and 2400 bytes, rounded
    del made
    assert torch.cuda.memory_allocated() == before


def test_operators():
    a, host = sparse_matrix(), dense_matrix()
    b = torch.sparse_coo_tensor([[0, 0], [1, 1]], [1.0, 2.0], (6, 8), device="cuda")
    results = {
        "add": (a + b, lambda x, y: x + y),
        "coalesce": (b.coalesce(), lambda x, y: y),
        "scale": (a * 3, lambda x, y: x * 3),
        "product": (a * a, lambda x, y: x * x),
        "sum": (torch.sparse.sum(a, 0), lambda x, y: x.sum(0)),
        "dense": (a.to_dense() + b, lambda x, y: x + y),
        "transpose": (a.t(), lambda x, y: x.t()),
        "clone": (a.clone(), lambda x, y: x),
        "in place": (a.clone().add_(b), lambda x, y: x + y),
    }
    for name, (result, rule) in results.items():
        assert result.device == CUDA, name
        assert torch.allclose(result.cpu().to_dense(), rule(host, b.cpu().to_dense())), name
        parts = (result._values(), result._indices()) if result.is_sparse else (result,)
        assert {part.device for part in parts} == {CUDA}, name


def test_tensors_of_host_and_device_do_not_mix():
    with pytest.raises(RuntimeError, match="same device"):
        torch.ones(6, 8, device="cuda") + dense_matrix().to_sparse()
    with pytest.raises(RuntimeError, match="same device"):
        torch.ones(6, 8) + sparse_matrix()


@pytest.mark.parametrize(
    "optimizer",
    [
        lambda parameters: torch.optim.SGD(parameters, lr=0.1),
        lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9),
        lambda parameters: torch.optim.Adagrad(parameters, lr=0.1),
        lambda parameters: torch.optim.SparseAdam(list(parameters), lr=0.1),
    ],
)
def test_an_embedding_with_sparse_gradients_trains_as_on_the_host(optimizer):
    def trained(where):
        torch.manual_seed(0)
        table = torch.nn.Embedding(50, 4, sparse=True).to(where)
        step = optimizer(table.parameters())
        for start in range(3):
            step.zero_grad()
            rows = torch.tensor([start, start, start + 7], device=where)
            table(rows).square().sum().backward()
            assert table.weight.grad.is_sparse
            assert table.weight.grad.device == torch.device(where)
            step.step()
        return table.weight.detach().cpu()

    assert torch.equal(trained("cuda:0"), trained("cpu"))


def test_gradients_of_a_product():
    def gradients(where):
        values = torch.tensor([1.0, 2.0], device=where, requires_grad=True)
        right = torch.ones(3, 2, device=where, requires_grad=True)
        matrix = torch.sparse_coo_tensor(torch.tensor([[0, 1], [2, 0]], device=where), values, (2, 3))
        torch.sparse.mm(matrix, right).square().sum().backward()
        return values.grad, right.grad

    for there, here in zip(gradients("cuda:0"), gradients("cpu"), strict=True):
        assert there.device == CUDA
        assert torch.equal(there.cpu(), here)


def test_coalescing_waits_for_the_device():
    uncoalesced = torch.sparse_coo_tensor([[0, 0], [1, 1]], [1.0, 2.0], (6, 8), device="cuda")
    torch.cuda._sleep(1_000_000)
    assert not torch.cuda.current_stream().query()
    uncoalesced.coalesce()
    assert torch.cuda.current_stream().query()


def test_saving_and_loading():
    file = io.BytesIO()
    torch.save(sparse_matrix(), file)
    file.seek(0)
    loaded = torch.load(file)
    assert loaded.device == CUDA
    assert torch.equal(loaded.to_dense().cpu(), dense_matrix())


def test_text():
    assert "device='cuda:0'" in repr(sparse_matrix())
    assert repr(sparse_matrix()).replace(", device='cuda:0'", "").replace("device='cuda:0', ", "").split() == (
        repr(dense_matrix().to_sparse()).split()
    )


def test_sparse_tensors_stay_when_the_device_ends():
    from cudalens.virtual.context import active

    kept = sparse_matrix()
    active().disable()
    assert kept.device.type == "cpu"
    assert torch.equal(kept.to_dense(), dense_matrix())


@pytest.mark.parametrize("layout", [torch.sparse_coo, torch.sparse_csr])
def test_the_product_of_two_sparse_matrices(layout):
    """For compressed rows, torch's C++ makes the tensor to which it adds the product."""
    matrix = sparse_matrix(layout)
    found = torch.sparse.mm(matrix, matrix.to_dense().t().contiguous().to_sparse(layout=layout))
    assert (found.device, found.layout) == (CUDA, layout)
    torch.testing.assert_close(found.to_dense().cpu(), dense_matrix() @ dense_matrix().t())
