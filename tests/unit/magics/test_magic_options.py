"""A magic line becomes options, or a UsageError; and the help of a magic lists the options that each form accepts."""

import contextlib
import keyword
import re
import shlex
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

from cudalens.api import session as runs_module
from cudalens.frames import RunInfo, Trace
from cudalens.magics import MAGICS
from cudalens.magics.base import loaded
from cudalens.magics.completion import Cudalens, LineCompleter
from cudalens.magics.options import HelpRequest
from cudalens.magics.profile import Cudaprofile, ProfileOptions

FORM = Cudaprofile.cell_form
parse = FORM.parse

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


def forms_of(magic):
    """All forms of a magic: the cell form and the line forms."""
    return [*([magic.cell_form] if magic.cell_form else []), *(form for form, _ in magic.forms.values())]


FORMS = [form for magic in MAGICS for form in forms_of(magic)]


def names_in_help(form):
    """The options that the help of a form describes, as ``--name``."""
    return set(re.findall(r"(?<![\w`-])(--?[a-z][a-z-]*)", "\n".join(re.findall(r"^  -.*", form.help(), re.MULTILINE))))


OPTIONS = sorted({name for form in FORMS for name in names_in_help(form)})
SAMPLES = ("", "1", "name", "skip", "stack", "a.html")


def accepts(form, option):
    """Whether a form has the option: with some value it is parsed, or it is refused for its value alone."""
    for sample in SAMPLES:
        for places in ("", "a "):
            try:
                form.parse(f"{places}{option} {sample}")
            except UsageError as refused:
                if "unrecognized arguments" in str(refused):
                    continue
            return True
    return False


def test_the_empty_line_has_the_defaults():
    assert parse("") == ProfileOptions()


@given(st.sets(st.sampled_from(sorted(FLAGS))), st.integers(0, 10**6), st.none() | st.integers(1, 10**6))
def test_flags_and_numbers(flags, warmup, repeat):
    line = " ".join([*flags, f"--warmup {warmup}", *([] if repeat is None else [f"--repeat={repeat}"])])
    asked = {attribute: flag in flags for flag, attribute in FLAGS.items()}
    assert parse(line) == ProfileOptions(warmup=warmup, repeat=repeat, **asked)


@given(
    st.text(st.characters(exclude_characters="'\"", exclude_categories=["C"]), min_size=1).filter(lambda t: t.strip())
)
def test_quotes_join_a_name(name):
    if not name.startswith("-"):
        assert parse(f"'{name}'").name == name
        assert parse(f'--memory "{name}"').name == name


@pytest.mark.parametrize(
    ("line", "path"),
    [
        (r"--html C:\runs\new\a.html", r"C:\runs\new\a.html"),
        ("--html 'a b.html'", "a b.html"),
        ("--html=a#b.html", "a#b.html"),
        ("--html '#1.html' # the first", "#1.html"),
        ('--html "it\'s.html"', "it's.html"),
        ("--html ~/a.html", str(Path("~/a.html").expanduser())),
    ],
)
def test_file_names_are_taken_literally(line, path):
    assert parse(line).html == Path(path)
    assert parse(line).outputs == {"to_html": Path(path)}


@pytest.mark.parametrize("comment", ["# why", "#why", "#", "# don't \"quote", "# --bogus # again"])
def test_a_comment_ends_the_options(comment):
    assert parse(f"run --memory {comment}") == ProfileOptions(name="run", memory=True)
    assert parse(comment) == ProfileOptions()


@given(st.text())
def test_any_line_is_options_or_a_usage_error(line):
    with contextlib.suppress(UsageError):
        assert isinstance(parse(line), ProfileOptions)


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
def test_a_refusal_ends_with_the_usage_of_its_form(form):
    with pytest.raises(UsageError) as refused:
        form.parse("a --bogus")
    assert str(refused.value).endswith(form.usage())
    assert form.usage().startswith(f"usage: {form.name}")


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


def test_collecting_options_are_those_of_profile():
    import inspect

    from cudalens.api.profile import profile

    assert set(ProfileOptions().collects) <= set(inspect.signature(profile).parameters)


# -- the help ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
def test_the_help_of_a_form_lists_the_options_that_it_accepts(form):
    assert names_in_help(form) == {option for option in OPTIONS if accepts(form, option)}


@pytest.mark.parametrize("magic", MAGICS, ids=lambda magic: magic.name)
def test_the_help_of_a_magic_has_all_its_forms(magic):
    assert all(form.help() in magic.help() for form in forms_of(magic))
    assert magic.usage() in magic.help()


def test_the_help_names_what_was_missing():
    helps = {magic.name: magic.help() for magic in MAGICS}
    cell = helps["cudagraph"].partition("%%cudagraph: ")[2].partition("%cudagraph tree: ")[0]
    assert all(name in cell for name in ("--repeat", "--check", "--mutations", "-o", "-q"))
    cell = helps["cudasan"].partition("%%cudasan: ")[2].partition("%cudasan on: ")[0]
    assert all(name in cell for name in ("--suppress", "-v", "-o", "-q"))
    assert "--yes" not in cell
    assert "history on" in helps["cudaprofile"]


# -- one parser per verb -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "option"),
    [
        ("cudasan explore --html a.html", "--html"),
        ("cudasan off --html a.html", "--html"),
        ("cudasan on --runs 3", "--runs"),
        ("cudasan status -q", "-q"),
        ("cudagraph list --html a.html", "--html"),
        ("cudadevice virtual h100 --rate 3", "--rate"),
        ("cudamem snapshot S --by stack", "--by"),
        ("cudaprofile list --memory", "--memory"),
    ],
)
def test_an_option_of_another_verb_is_refused(line, option):
    name, _, rest = line.partition(" ")
    magic = next(magic for magic in MAGICS if magic.name == name)
    with pytest.raises(UsageError, match=f"unrecognized arguments: {option}"):
        magic(None).run_line(rest)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("cudasan yes", "what is 'yes'? Expected one of on, off, status"),
        ("cudamem leaks maybe", "what is 'maybe'? Expected one of on, off"),
        ("cudadevice live 3", "what is '3'? Expected one of stop"),
        ("cudamem -v t snapshot", "write 'snapshot' before the options"),
        ("cudasan 'on", "a quote is not closed"),
        ("cudamem diff", "one or two snapshots"),
    ],
)
def test_a_line_without_a_form_is_refused(line, reason):
    name, _, rest = line.partition(" ")
    magic = next(magic for magic in MAGICS if magic.name == name)
    with pytest.raises(UsageError, match=re.escape(reason)):
        magic(None).run_line(rest)


@pytest.mark.parametrize(
    ("typed", "meant"),
    [("--memroy", "--memory"), ("--mem", "--memory"), ("--repeats 3", "--repeat"), ("--sync", "--syncs")],
)
def test_a_misspelt_option_names_the_nearest_one(typed, meant):
    with pytest.raises(UsageError, match=rf"unrecognized arguments: {typed.split()[0]}. Did you mean {meant}\?"):
        parse(typed)
    with pytest.raises(UsageError) as refused:
        parse("--xyzzy")
    assert "Did you mean" not in str(refused.value)


def test_names_of_torch_are_names_of_the_options():
    torchs = "--record-shapes --with-stack --profile-memory --with-flops --with_modules"
    assert parse(torchs) == parse("--shapes --stacks --memory --flops --modules")
    assert parse("--no_raise_error --cpu_only") == parse("--no-raise-error --cpu-only")


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
def test_help_shows_the_help_in_place_of_a_traceback(form):
    for asked in ("-h", "--help"):
        with pytest.raises(HelpRequest) as shown:
            form.parse(asked)
        assert shown.value._render_traceback_() == [form.help()]


@pytest.mark.parametrize(
    ("line", "word", "expected"),
    [
        ("%%cudaprofile --me", "--me", ["--memory", "--metrics"]),
        ("%%cudaprofile --memory --me", "--me", ["--metrics"]),
        ("%cudaprofile di", "di", ["diff"]),
        ("%cudaprofile show fi", "fi", ["first"]),
        ("%%cudamem --ht", "--ht", ["--html"]),
        ("x = 1  # %cudaprofile di", "di", []),
        ("%timeit --me", "--me", []),
    ],
)
def test_tab_completes_options_verbs_and_runs(monkeypatch, line, word, expected):
    monkeypatch.setattr(runs_module, "runs", ["first", "two words"])
    found = LineCompleter(None, MAGICS).complete(line, word)
    assert [one.text for one in found["completions"]] == expected


def test_the_overview_lists_magics_and_the_last_runs(monkeypatch, capsys):
    runs = runs_module.Runs()
    monkeypatch.setattr(runs_module, "runs", runs)
    shell = InteractiveShell(config=Config(HistoryManager={"enabled": False}))
    for magic in MAGICS:
        magic(shell).load()
    (overview,) = (magic for magic in loaded(shell) if isinstance(magic, Cudalens))
    overview.run_line("")
    shown = capsys.readouterr().out
    assert all(f"%{magic.name} " in shown for magic in MAGICS if magic is not Cudalens)
    assert "No run yet" in shown
    for number in range(7):
        runs.add(Trace(RunInfo(name=f"run-{number}", source="cpu", started_ns=0, ended_ns=1)))
    overview.run_line("")
    listed = re.findall(r"^  (run-\d)", capsys.readouterr().out, re.MULTILINE)
    assert listed == ["run-6", "run-5", "run-4", "run-3", "run-2"]
