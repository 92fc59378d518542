"""Mangled C++ names of kernels, as c++filt writes them."""

import shutil
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cudalens.traces.sqlite.demangle import demangled

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


@pytest.mark.parametrize(("mangled", "plain"), NAMES.items())
def test_names_as_cpp_writes_them(mangled, plain):
    assert demangled(mangled) == plain


@pytest.mark.skipif(shutil.which("c++filt") is None, reason="no c++filt on this machine to compare with")
def test_the_same_as_cxxfilt():
    asked = "\n".join(NAMES)
    expected = subprocess.run(["c++filt"], input=asked, capture_output=True, text=True, check=True).stdout.splitlines()
    assert [demangled(name) for name in NAMES] == expected


@pytest.mark.parametrize(
    "name", ["", "main", "_Z", "_ZN", "_Z3ad", "_ZN3abc", "_Z1fT_", "_Z1fS9_", "_Z1fi.cold", "add_kernel"]
)
def test_what_is_no_whole_mangled_name_stays(name):
    assert demangled(name) == name


@given(st.text("_ZNSTIELJPRKDpFvAM0123456789ifabc", max_size=60))
def test_any_text_comes_out_as_text(tail):
    assert isinstance(demangled("_Z" + tail), str)


def test_names_made_to_grow_or_to_nest_stay():
    doubling = "_Z1fI" + "1A" + "".join(f"S{i}_" for i in range(3))
    bombs = ["_Z1f" + "P" * 5000 + "i", "_Z1f" + "N1a" * 4000, "_ZN" + "I" * 3000, "_Z" * 5000, doubling * 100]
    grows = "_Z1f1AIiE" + "".join(
        f"1BIS{'' if i == 0 else chr(47 + i)}_S{'' if i == 0 else chr(47 + i)}_E" for i in range(9)
    )
    for name in [*bombs, grows, "_Z1" + "9" * 400]:
        assert len(demangled(name)) <= max(len(name), 1 << 16)
