"""The family of operators without fitted constants, by which the error of their predicted times is learned."""

from __future__ import annotations

from typing import Final

_OPERATORS: Final = {
    "reduction": (
        "sum mean prod nansum amax amin aminmax max min any all argmax argmin norm linalg_vector_norm var std var_mean "
        "std_mean logsumexp cumsum cumprod cummax cummin logcumsumexp count_nonzero"
    ),
    "selection": "sort argsort topk kthvalue median mode unique _unique2 unique_dim unique_consecutive searchsorted",
    "indexing": (
        "embedding embedding_dense_backward _embedding_bag _embedding_bag_forward_only index index_select index_add "
        "index_copy index_fill index_put _index_put_impl _unsafe_index gather scatter scatter_add scatter_reduce take "
        "put cat stack triu tril nonzero masked_select"
    ),
    "image": (
        "native_batch_norm _native_batch_norm_legit cudnn_batch_norm native_batch_norm_backward native_group_norm "
        "cudnn_batch_norm_backward native_group_norm_backward max_pool2d_with_indices avg_pool2d _adaptive_avg_pool2d "
        "max_pool2d_with_indices_backward avg_pool2d_backward _adaptive_avg_pool2d_backward upsample_nearest2d "
        "upsample_bilinear2d upsample_bicubic2d upsample_nearest2d_backward upsample_bilinear2d_backward"
    ),
    "loss": "nll_loss_forward nll_loss_backward nll_loss2d_forward nll_loss2d_backward mse_loss mse_loss_backward",
}

#: The family by the name of the operator, without namespace and trailing underscores.
LEARNED: Final = {name: family for family, names in _OPERATORS.items() for name in names.split()}

#: Prefixes of operators on lists of tensors, which optimizers use.
_MANY_TENSORS: Final = ("_foreach_", "_fused_adam", "_fused_sgd", "_fused_adagrad")


def learned_family(name: str) -> str | None:
    """Return the family by which the error of an operator is learned; None for those without measurements.

    Args:
        name: The name without namespace and trailing underscores.
    """
    return "optimizer" if name.startswith(_MANY_TENSORS) else LEARNED.get(name)
