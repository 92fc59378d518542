"""Ranks read on a Dask cluster of processes; `make test-cluster` runs it, since it takes half a minute."""

import os
import signal
import threading
import time

import jobs
import pandas as pd
import pytest

import cudalens

pytestmark = pytest.mark.skipif(
    not os.environ.get("CUDALENS_CLUSTER"), reason="`make test-cluster` runs ranks on a cluster of processes"
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return jobs.simulate(jobs.Job(data=6, steps=20, layers=6)).write(tmp_path_factory.mktemp("job"))


@pytest.fixture
def client():
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


def kill_after_first_part(pid, store, killed):
    while not list(store.glob("events/part-*.parquet")):
        time.sleep(0.01)
    os.kill(pid, signal.SIGKILL)
    killed.append(len(list(store.glob("events/part-*.parquet"))))


def test_a_worker_that_is_killed_in_the_middle_changes_nothing(folder, client, tmp_path):
    expected = cudalens.load_ranks(folder, store=tmp_path / "serial")
    pid = next(iter(client.run(os.getpid).values()))
    killed = []
    killer = threading.Thread(target=kill_after_first_part, args=(pid, tmp_path / "store", killed))
    killer.start()
    found = cudalens.load_ranks(folder, client=client, store=tmp_path / "store")
    killer.join()
    assert killed[0] < 6
    assert pid not in client.run(os.getpid).values()
    assert found.problems == expected.problems == ()
    for name, frame in expected.frames.items():
        pd.testing.assert_frame_equal(found.frames[name], frame, obj=name)
    for rank in expected:
        pd.testing.assert_frame_equal(found[rank].events, expected[rank].events)
