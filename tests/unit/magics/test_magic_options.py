"""A magic line becomes options, or a UsageError; nothing else, whatever stands in it."""

import contextlib
import keyword
import shlex
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from IPython.core.error import UsageError

from cudalens.magics.options import ARGUMENTS, Options, parse, usage

FLAGS = {
    "-q": "quiet",
    "-o": "output",
    "--memory": "memory",
    "--shapes": "shapes",
    "--stacks": "stacks",
    "--modules": "modules",
    "--flops": "flops",
    "--cpu-only": "cpu_only",
    "--no-raise-error": "no_raise_error",
}


def test_the_empty_line_asks_for_the_usual():
    assert parse("") == Options()


@given(st.sets(st.sampled_from(sorted(FLAGS))), st.integers(0, 10**6), st.none() | st.integers(1, 10**6))
def test_flags_and_numbers(flags, warmup, repeat):
    line = " ".join([*flags, f"--warmup {warmup}", *([] if repeat is None else [f"--repeat={repeat}"])])
    asked = {attribute: flag in flags for flag, attribute in FLAGS.items()}
    assert parse(line) == Options(warmup=warmup, repeat=repeat, **asked)


@given(
    st.text(st.characters(exclude_characters="'\"", exclude_categories=["C"]), min_size=1).filter(lambda t: t.strip())
)
def test_quotes_hold_a_name_together(name):
    if not name.startswith("-"):
        assert parse(f"'{name}'").name == name
        assert parse(f'--memory "{name}"').name == name


@pytest.mark.parametrize(
    ("line", "path"),
    [
        (r"--html C:\runs\new\a.html", r"C:\runs\new\a.html"),
        ("--html 'a b.html'", "a b.html"),
        ("--html=a#b.html", "a#b.html"),
        ('--html "it\'s.html"', "it's.html"),
        ("--html ~/a.html", str(Path("~/a.html").expanduser())),
    ],
)
def test_file_names_are_taken_as_they_stand(line, path):
    assert parse(line).html == Path(path)
    assert parse(line).outputs == {"to_html": Path(path)}


@given(st.text())
def test_any_line_is_options_or_a_usage_error(line):
    with contextlib.suppress(UsageError):
        assert isinstance(parse(line), Options)


def test_a_refusal_ends_with_the_usage():
    with pytest.raises(UsageError) as refused:
        parse("--bogus")
    assert str(refused.value).endswith(usage())


@given(st.text(min_size=1))
def test_a_variable_is_a_name_that_python_takes(text):
    is_name = text.isidentifier() and not keyword.iskeyword(text)
    try:
        assert parse(f"--var={shlex.quote(text)}").var == text
        assert is_name
    except UsageError:
        # A single quote in shlex's own style needs an escape, which we do not have; no name holds one.
        assert not is_name


@pytest.mark.parametrize("count", ["-1", "1.5", "x", "", "1e3", "²"])
def test_counts_are_whole_numbers(count):
    with pytest.raises(UsageError, match="whole number"):
        parse(f"--repeat '{count}'")


def test_the_usage_names_every_option_once():
    words = usage().replace("[", " ").replace("]", " ").split()
    for names, _ in ARGUMENTS:
        assert words.count(names[0]) == 1


def test_collecting_options_are_those_of_profile():
    import inspect

    from cudalens.api.profile import profile

    assert set(Options().collects) <= set(inspect.signature(profile).parameters)
