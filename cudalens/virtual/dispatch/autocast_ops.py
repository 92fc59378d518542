"""Autocast policies of operators for ``torch.autocast("cuda")``: torch's lists (ATen/autocast_mode.h). No torch.

Operators and overloads that a version of torch does not have, or does not cast, are ignored.
"""

from __future__ import annotations

from typing import Final, Literal

Policy = Literal["lower", "float32", "float32_dtype", "norm", "promote", "banned"]

_LOWER: Final = (
    "_convolution.deprecated _convolution conv1d conv2d conv3d conv_tbc conv_transpose1d conv_transpose2d.input "
    "conv_transpose3d.input convolution prelu addmm addmv addr matmul einsum mm mv linalg_vecdot linear addbmm "
    "baddbmm bmm chain_matmul linalg_multi_dot _thnn_fused_lstm_cell _thnn_fused_gru_cell lstm_cell gru_cell "
    "rnn_tanh_cell rnn_relu_cell _scaled_dot_product_flash_attention scaled_dot_product_attention cudnn_convolution "
    "cudnn_convolution_transpose"
)
_FLOAT32: Final = (
    "acos asin cosh erfinv exp expm1 log log10 log2 log1p reciprocal rsqrt sinh tan pow.Tensor_Scalar "
    "pow.Tensor_Tensor pow.Scalar softplus layer_norm native_layer_norm rms_norm group_norm frobenius_norm.dim "
    "nuclear_norm nuclear_norm.dim cosine_similarity poisson_nll_loss cosine_embedding_loss nll_loss nll_loss2d "
    "hinge_embedding_loss kl_div l1_loss smooth_l1_loss huber_loss mse_loss margin_ranking_loss "
    "multilabel_margin_loss soft_margin_loss triplet_margin_loss multi_margin_loss binary_cross_entropy_with_logits "
    "dist pdist cdist renorm logsumexp upsample_nearest1d _upsample_nearest_exact1d upsample_nearest2d "
    "_upsample_nearest_exact2d upsample_nearest3d _upsample_nearest_exact3d upsample_linear1d upsample_bilinear2d "
    "_upsample_bilinear2d_aa upsample_trilinear3d upsample_bicubic2d _upsample_bicubic2d_aa linalg_matrix_sqrth"
)
_FLOAT32_DTYPE: Final = (
    "prod prod.dim_int softmax.int log_softmax.int cumprod cumsum linalg_vector_norm linalg_matrix_norm "
    "linalg_matrix_norm.str_ord sum sum.dim_IntList"
)
_PROMOTE: Final = "addcdiv addcmul atan2 bilinear cross dot vdot grid_sampler index_put tensordot scatter_add"

#: The policy by name and overload, as in a schema.
POLICIES: Final[dict[str, Policy]] = {
    **dict.fromkeys(_LOWER.split(), "lower"),
    **dict.fromkeys(_FLOAT32.split(), "float32"),
    **dict.fromkeys(_FLOAT32_DTYPE.split(), "float32_dtype"),
    **dict.fromkeys(("norm.Scalar", "norm.ScalarOpt_dim"), "norm"),
    **dict.fromkeys(_PROMOTE.split(), "promote"),
    "binary_cross_entropy": "banned",
}

#: On a GPU these are one call of cuDNN, which autocast runs in lower precision (ATen/cudnn/AutocastRNN.cpp).
RECURRENT: Final = tuple(
    f"{kind}.{form}" for kind in ("lstm", "gru", "rnn_tanh", "rnn_relu") for form in ("input", "data")
)
