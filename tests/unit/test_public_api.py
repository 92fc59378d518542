"""What `import cudalens` offers, and what it costs."""

import subprocess
import sys

import pytest

import cudalens


@pytest.mark.parametrize("name", cudalens.__all__)
def test_everything_in_all_exists(name):
    assert getattr(cudalens, name) is not None


def test_dir_lists_the_lazy_names_too():
    assert set(cudalens.__all__) <= set(dir(cudalens))


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        cudalens.nonsense  # noqa: B018


def test_importing_brings_in_nothing_heavy():
    heavy = ("torch", "pandas", "numpy", "pyarrow", "plotly", "IPython")
    code = f"import sys, cudalens; print([m for m in {heavy} if m in sys.modules])"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"


def test_every_exception_has_one_root():
    errors = [getattr(cudalens, name) for name in cudalens.__all__ if name.endswith("Error")]
    assert len(errors) >= 6
    assert all(issubclass(error, cudalens.CudalensError) for error in errors)


def test_frames_analysis_and_readers_work_without_torch():
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "import cudalens.frames, cudalens.analysis, cudalens.traces, cudalens.views, cudalens.report"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
