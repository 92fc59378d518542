"""Mangled C++ names of kernels, as c++filt writes them."""

import shutil
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cudalens.traces.sqlite.activities import demangler

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="names are demangled on Linux alone")

NAMES = {
    "_Z3addPfi": "add(float*, int)",
    "_Z1fv": "f()",
    "_ZN2at6native4fillILi4ELb1EfEEvPT1_S3_": "void at::native::fill<4, true, float>(float*, float*)",
    "_Z1fIJifdEEvDpT_": "void f<int, float, double>(int, float, double)",
    "_Z1fIJEEvDpT_": "void f<>()",
    "_Z1fPFviE": "f(void (*)(int))",
    "_Z1fRA3_Kf": "f(float const (&) [3])",
    "_Z1fM1AFivE": "f(int (A::*)())",
    "_ZN12_GLOBAL__N_11gEv": "(anonymous namespace)::g()",
    "_ZNK3c105DtypeeqERKS0_": "c10::Dtype::operator==(c10::Dtype const&) const",
    "_ZN1A1BC1ERKS0_": "A::B::B(A::B const&)",
    "_ZZ4mainENKUlifE_clEif": "main::{lambda(int, float)#1}::operator()(int, float) const",
    "_Z1fILin3EEvv": "void f<-3>()",
    "_Z1fIL_Z3fooiEEvv": "void f<foo(int)>()",
    "_Z1fIXadL_Z3fooiEEEvv": "void f<&(foo(int))>()",
    "_ZN1n3runINS_1OILi2EEEfEEvPKT_RKT0_PS2_": "void n::run<n::O<2>, float>(n::O<2> const*, float const&, n::O<2>*)",
}


DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def nested(levels, width):
    """A type whose every level repeats the level below: its text has `width` ** `levels` parts."""
    references = ["S_", *(f"S{digit}_" for digit in DIGITS)]
    return "_Z1f1AIiE" + "".join(f"1BI{references[level] * width}E" for level in range(levels))


def demangled(name):
    """`name` demangled, beside a plain name that must come out well."""
    change = demangler([name, "_Z1fv"])
    assert change("_Z1fv") == "f()"
    return change(name)


def test_names_as_cpp_writes_them():
    change = demangler(NAMES)
    assert {name: change(name) for name in NAMES} == NAMES


@pytest.mark.skipif(shutil.which("c++filt") is None, reason="no c++filt on this machine to compare with")
def test_the_same_as_cxxfilt():
    asked = "\n".join(NAMES)
    expected = subprocess.run(["c++filt"], input=asked, capture_output=True, text=True, check=True).stdout.splitlines()
    assert list(map(demangler(NAMES), NAMES)) == expected


@pytest.mark.parametrize("name", ["", "main", "_Z", "_ZN", "_Z3ad", "_ZN3abc", "_Z1fT_", "_Z1fS9_", "add_kernel"])
def test_what_is_no_whole_mangled_name_stays(name):
    assert demangled(name) == name


@pytest.mark.parametrize("name", ["_Z1fv\n_Z1gv", "_Z1fv\0", "_Z1f\u00e9", "_Z1fv\r", "_Z3a\nbv"])
def test_a_name_with_other_characters_than_a_compiler_writes_stays(name):
    assert demangled(name) == name


@settings(max_examples=10)
@given(st.lists(st.text("_ZNSTIELJPRKDpFvAM0123456789ifabc", max_size=60), max_size=300))
def test_any_text_comes_out_as_text(tails):
    names = [f"_Z{tail}" for tail in tails]
    change = demangler([*names, "_Z1fv"])
    assert all(isinstance(change(name), str) for name in names)
    assert change("_Z1fv") == "f()"


def test_names_made_to_grow_or_to_nest_stay():
    deep = ["_Z1f" + "P" * 5000 + "i", "_Z1f" + "N1a" * 4000, "_ZN" + "I" * 3000, "_Z" * 5000, "_Z1" + "9" * 400]
    for name in [*deep, "_Z1f" + "P" * (1 << 14) + "i"]:
        assert demangled(name) in (name, f"f(int{name.count('P') * '*'})")
    assert all(len(demangled(nested(levels, 3))) <= 1 << 16 for levels in range(1, 36, 4))
    many = [f"{nested(8, 3)}{i}x{i:0{i}}" for i in range(1, 3000)]
    assert sum(map(len, map(demangler(many), many))) < 1 << 28


def test_without_the_library_names_stay(monkeypatch):
    monkeypatch.setattr(sys, "executable", "/nonexistent/python")
    assert demangler(NAMES)("_Z1fv") == "_Z1fv"
