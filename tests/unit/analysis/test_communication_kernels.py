"""Which kernels count as communication, and patterns of the user's own."""

import pytest
from findings_worlds import MS, US, World

from cudalens.analysis import device_time, findings
from cudalens.analysis.time import work
from cudalens.frames.column_arrays import text_column

COMMUNICATES = [
    "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
    "ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclWorkElem)",
    "ncclAllReduceRingLLKernel_sum_f32(ncclColl)",
    "ncclSymkDevKernel_AllReduce_RSxLD_AGxST_f16",
    "rcclGenericKernel<1, false>(ncclDevKernelArgsStorage<4096ul>)",
    "mscclKernel_Sum_half_LL_false",
    "void mscclpp::collective::allreduce7<float>(float*)",
    "void deep_ep::intranode::dispatch<8, 768, 8192>(int4*, float*)",
    "void dpsk::ep::internode_ll::combine<true, 3, 16, 7168>(void*)",
    "void nvshmemi_transfer_rma_kernel(int)",
    "void vllm::cross_device_reduce_1stage<__nv_bfloat16, 8>(vllm::RankData*)",
    "void quickreduce::allreduce_prototype_twoshot<half>(half*)",
    "void tensorrt_llm::kernels::oneShotAllReduceKernel<float, 8>(Params)",
    "void flashinfer::trtllm_allreduce_fusion::allreduce_fusion_kernel_oneshot_lamport<half>(int)",
    "void c10d::multimem_one_shot_all_reduce_kernel<float, 16>(float*)",
    "void c10d::symmetric_memory::two_shot_all_reduce_kernel<8>(int)",
    "kuserbuffers_pushsend(int)",
    "oneccl_allreduce_small<float>",
    "hcom_allReduce__123_0",
]
COMPUTES = [
    "void deep_ep::layout::get_dispatch_layout<256, 32, 8>(long const*)",
    "ampere_sgemm_128x64_tn",
    "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float>>(int)",
    "ncclx_tools::histogram",
    "void cub::DeviceReduceKernel<Policy>(int)",
]


def test_kernels_of_communication_libraries_and_no_others():
    found = work.is_communication(text_column([*COMMUNICATES, *COMPUTES]))
    assert found.tolist() == [True] * len(COMMUNICATES) + [False] * len(COMPUTES)


@pytest.fixture
def registered(monkeypatch):
    monkeypatch.setattr(work, "_registered", [])
    yield work.register
    work.forget_all()


def test_a_registered_pattern_counts_in_traces_that_were_analysed_before(registered):
    world = World()
    for _ in range(10):
        world.device("my_ring_exchange<float>", MS).kernels(10, 300 * US)
    trace = world.wait().trace()
    assert device_time(trace)["comm_ns"] == 0
    assert findings(trace) == []
    registered(r"^my_ring")
    registered(r"^my_ring")
    assert work._registered == [r"^my_ring"]
    assert device_time(trace)["comm_ns"] == 10 * MS
    assert [one.rule for one in findings(trace)] == ["exposed_communication"]


@pytest.mark.parametrize(("pattern", "reason"), [("(", "regular expression"), (".*", "every name"), (3, "3")])
def test_patterns_that_cannot_be_used(registered, pattern, reason):
    with pytest.raises(ValueError, match=reason):
        registered(pattern)
