"""Times of collectives within a node and between nodes."""

import pytest

from cudalens.errors import VirtualDeviceError
from cudalens.gpus.predict import collective_time
from cudalens.gpus.registry import SPECS
from cudalens.virtual.jobs.topology import NETWORKS, Cluster, network_of

H100 = SPECS["h100"]
GIB = 1 << 30


def cluster(num_gpus, num_nodes, network=None, **options):
    return Cluster(H100, num_gpus, num_nodes, network_of(H100, network), **options)


def test_within_a_node_times_are_the_measured_ones():
    found = cluster(8, 1).collective_ns("all_reduce", range(8), GIB)
    assert found == collective_time("h100", "all_reduce", 8, GIB)


@pytest.mark.parametrize("kind", ["all_gather", "reduce_scatter"])
def test_large_messages_between_dgx_h100_reach_the_bandwidth_that_nccl_tests_reports(kind):
    """NVIDIA reports 360 to 370 GB/s of bus bandwidth for 8 GiB on 16 nodes; NVLink allows no more."""
    ranks = range(128)
    time_ns = cluster(128, 16).collective_ns(kind, ranks, 8 * GIB)
    assert 300 < 8 * GIB * 127 / 128 / time_ns < 380


def test_one_gpu_of_each_node_has_the_bandwidth_of_one_card():
    time_ns = cluster(64, 8).collective_ns("all_reduce", range(0, 64, 8), GIB)
    assert 2 * GIB * 7 / 8 / time_ns == pytest.approx(400 / 8 * 0.92, rel=0.1)


def test_small_messages_take_longer_on_more_nodes_but_not_in_proportion():
    times = [cluster(8 * nodes, nodes).collective_ns("all_reduce", range(8 * nodes), 4) for nodes in (1, 2, 16, 64)]
    assert times == sorted(times)
    assert times[-1] < 8 * times[1]


def test_a_slow_network_and_a_slow_link_slow_down_what_crosses_them_only():
    ranks, whole = range(16), range(8)
    fast, slow = cluster(16, 2), cluster(16, 2, "ethernet")
    assert slow.collective_ns("all_gather", ranks, GIB) > 10 * fast.collective_ns("all_gather", ranks, GIB)
    assert slow.collective_ns("all_gather", whole, GIB) == fast.collective_ns("all_gather", whole, GIB)
    damaged = cluster(24, 3, slow_links={2: 4.0})
    assert damaged.collective_ns("all_gather", range(16), GIB) == fast.collective_ns("all_gather", ranks, GIB)
    assert damaged.collective_ns("send", (0, 17), GIB) > 3.5 * fast.collective_ns("send", (0, 8), GIB)


def test_a_network_that_does_not_exist_is_refused():
    with pytest.raises(VirtualDeviceError, match=", ".join(NETWORKS)):
        network_of(H100, "token-ring")


def test_a_gpu_that_a_program_registered_has_the_network_of_its_kind():
    assert network_of(H100.replace(key="mine"), None) == NETWORKS["ndr400"]
    assert network_of(SPECS["l4"], None) == NETWORKS["ethernet"]
