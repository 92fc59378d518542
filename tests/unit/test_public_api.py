"""What `import cudalens` offers, and what it costs."""

import enum
import functools
import inspect
import subprocess
import sys

import pytest

import cudalens
from cudalens.analysis import key_averages
from cudalens.frames import RunInfo
from cudalens.frames.catalog_frames import FRAMES
from cudalens.report import to_html
from cudalens.traces.export.chrome import to_chrome
from cudalens.traces.export.flame import to_collapsed
from cudalens.views.figures import figure
from cudalens.views.sections.averages_table import table
from cudalens.views.widget import timeline


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


#: Parameters whose values may be anything: a value of the user's program, and objects whose types are private.
ANYTHING = {
    "value": "a value of the user's program",
    "shell": "IPython's shell; cudalens.memory does not depend on IPython",
    "experimental_config": "torch's private _ExperimentalConfig",
    "experimental": "torch's private _ExperimentalConfig",
    "client": "a dask.distributed.Client, which need not be installed",
}
#: Functions that return what the user's function returns, or change any field of a record.
EXCEPTIONS = {"graphs.GraphManager.call", "frames.RunInfo.replace", "virtual.DeviceSpec.replace"}


def public_callables():
    """Yield every public function and method with its name, below the modules that cudalens lists."""
    seen = set()
    for name in cudalens.__all__:
        value = getattr(cudalens, name)
        members = getattr(value, "__all__", ()) if inspect.ismodule(value) else ()
        for label, member in [(name, value), *((f"{name}.{m}", getattr(value, m)) for m in members)]:
            if id(member) in seen or not callable(member) or not member.__module__.startswith("cudalens"):
                continue
            seen.add(id(member))
            if not inspect.isclass(member):
                yield label, member
            elif not issubclass(member, (BaseException, enum.Enum)):
                yield label, member
                yield from methods(label, member)


def methods(label, owner):
    """Yield the public methods and properties of a class."""
    for name, attribute in vars(owner).items():
        if name.startswith("_"):
            continue
        if isinstance(attribute, (classmethod, staticmethod)):
            attribute = attribute.__func__
        elif isinstance(attribute, property):
            attribute = attribute.fget
        elif isinstance(attribute, functools.cached_property):
            attribute = attribute.func
        if inspect.isfunction(attribute):
            yield f"{label}.{name}", attribute


@pytest.mark.parametrize(("label", "function"), [pytest.param(*each, id=each[0]) for each in public_callables()])
def test_a_signature_lists_every_parameter_with_its_type(label, function):
    if label in EXCEPTIONS:
        return
    signature = inspect.signature(function)
    for parameter in signature.parameters.values():
        assert parameter.kind is not parameter.VAR_KEYWORD, f"{parameter} hides its options"
        if parameter.name not in {"self", "cls", *ANYTHING}:
            assert parameter.annotation is not parameter.empty
            assert str(parameter.annotation) != "Any", f"{parameter.name}: Any"
    assert str(signature.return_annotation) != "Any"


def test_the_frames_of_a_trace_are_those_of_the_catalog():
    for function in (cudalens.Trace.__init__, cudalens.Trace.replace):
        assert set(inspect.signature(function).parameters) - {"self", "info"} == set(FRAMES)


def test_a_method_has_the_options_of_its_function():
    """Methods of Trace and Ranks pass their options on to functions of other packages, with the same defaults."""
    trace = cudalens.Trace
    for method, function in (
        (trace.figure, figure),
        (cudalens.frames.Ranks.figure, figure),
        (trace.key_averages, key_averages),
        (trace.table, table),
        (trace.timeline, timeline),
        (trace.to_html, to_html),
        (trace.to_chrome, to_chrome),
        (trace.to_collapsed, to_collapsed),
    ):
        ours = [p.default for p in list(inspect.signature(method).parameters.values())[1:]]
        theirs = [p.default for p in list(inspect.signature(function).parameters.values())[1:]]
        assert ours == theirs, method


@pytest.mark.parametrize("name", ["idle_time", "flame_graph", "roofline", "critical_path", "compare"])
def test_an_option_that_a_figure_does_not_have_is_refused(name):
    with pytest.raises(TypeError, match=rf"the figure '{name}' has no option 'top'; it has: "):
        cudalens.Trace(RunInfo(name="t", source="cpu")).figure(name, top=3)
