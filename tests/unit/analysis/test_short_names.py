from hypothesis import given
from hypothesis import strategies as st

from cudalens.analysis.short_names import short_names

MUL = (
    "void at::native::elementwise_kernel<128, 4, at::native::gpu_kernel_impl_nocast<at::native::BinaryFunctor<{0}, {0}"
    ", {0}, at::native::binary_internal::MulFunctor<float> > >(at::TensorIteratorBase&)::{{lambda(int)#1}}>(int, int)"
)
SILU = (
    "void at::native::vectorized_elementwise_kernel<4, at::native::(anonymous namespace)::silu_kernel("
    "at::TensorIteratorBase&)::{lambda()#1}::operator()() const::{lambda(float)#1}, std::array<char*, 2ul> >(int)"
)


def test_what_a_kernel_computes_comes_before_how():
    assert short_names([SILU]) == {SILU: "silu · vectorized_elementwise"}
    assert short_names(["void vllm::rms_norm_kernel<c10::BFloat16, 8, 2>(c10::BFloat16*)"]) == {
        "void vllm::rms_norm_kernel<c10::BFloat16, 8, 2>(c10::BFloat16*)": "rms_norm"
    }


def test_kernels_that_would_be_equal_have_what_differs():
    names = [MUL.format("float"), MUL.format("c10::BFloat16")]
    assert (
        sorted(short_names(names).values())
        == ["MulFunctor [BFloat16] · elementwise", "MulFunctor [1] · elementwise"][::-1]
    )


def test_a_beginning_that_kernels_share_is_left_out():
    names = [f"volta_scudnn_winograd_128x128_ldg1_ldg4_relu_{kind}_nt_v1" for kind in ("large", "small")]
    assert sorted(short_names(names).values()) == ["volta_scudnn…large_nt_v1", "volta_scudnn…small_nt_v1"]


def test_a_python_frame_is_its_function_and_its_file():
    name = "torch/nn/modules/module.py(1743): _call_impl"
    assert short_names([name]) == {name: "_call_impl · module.py:1743"}


def test_a_function_of_a_cell_is_its_name_and_its_cell():
    names = ["In[2](1): work", "In[2](7): <lambda>", "In[3](1): <module>"]
    assert short_names(names) == dict(zip(names, ["work · In[2]:1", "<lambda> · In[2]:7", "In[3]"], strict=True))


def test_names_without_a_shorter_form_stay():
    assert short_names(["Memcpy", "<built-in function len>", "nn.Module: Linear_0", ""]) == {}


@given(st.lists(st.text("abf_:<>(), 12", max_size=30), max_size=12))
def test_no_two_names_are_shown_alike(names):
    short = short_names(names)
    shown = [short.get(name, name) for name in dict.fromkeys(names)]
    assert len(set(shown)) == len(shown)


def test_names_that_differ_in_two_places_are_short():
    kernels = [
        f"cutlass_80_tensorop_s1688gemm_{size}_{side}_align4"
        for size in ("256x64_16x4", "64x64_16x6")
        for side in ("nn", "nt")
    ]
    names = [f"void cutlass::Kernel<{kernel}>({kernel}::Params)" for kernel in kernels]
    assert list(short_names(names).values()) == [f"{kernel} · Kernel" for kernel in kernels]
