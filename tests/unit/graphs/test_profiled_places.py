"""Places in the profile of a graphed function are lines of the program, not of cudalens."""

from pathlib import Path

import pytest
import torch

import cudalens
from cudalens import virtual
from cudalens.analysis import findings
from cudalens.frames.stacks import Place, user_place


@pytest.fixture
def profiled():
    with virtual.device("h100"), torch.no_grad():
        model = torch.nn.Sequential(*[torch.nn.Linear(256, 256) for _ in range(6)]).cuda()
        graphed = cudalens.cudagraph(lambda x: model(x).relu())
        x = torch.randn(8, 256, device="cuda")
        for _ in range(3):
            graphed(x)
        with cudalens.profile("graphed", stacks=True, keep=False) as run:
            for _ in range(5):
                graphed(x)
    return run.trace


def test_findings_name_lines_of_the_program(profiled):
    places = {one.place for one in findings(profiled) if one.place}
    assert places
    assert {place.partition(":")[0] for place in places} == {Path(__file__).name}


def test_kernels_of_replays_come_from_the_call_of_the_graphed_function(profiled):
    table = profiled.key_averages(by=["name", "cell_line"]).set_index("name")
    source = table.loc[table.index.str.contains("addmm"), "cell_line"].dropna().unique().tolist()
    assert len(source) == 1
    assert source[0].startswith(f"{Path(__file__).name}:")


@pytest.mark.parametrize("folder", ["cudalens/", "/home/me/src/cudalens/cudalens/", "C:\\src\\cudalens\\cudalens\\"])
def test_files_of_cudalens_are_not_the_users_wherever_they_are(folder):
    assert user_place(f"{folder}graphs/node.py(293): replay".replace("/", "\\" if "\\" in folder else "/")) is None


def test_a_users_file_in_a_folder_named_cudalens_is_the_users():
    assert user_place("/home/me/cudalens/train.py(3): step") == Place("/home/me/cudalens/train.py", 3, "step")
