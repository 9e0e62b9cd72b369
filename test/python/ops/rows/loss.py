"""Rows of csrc/ops/nn/loss.cpp."""

from typing import Any

import torch
from torch.nn import functional as F
from torch.nn.modules.linear_cross_entropy_options import LinearCrossEntropyOptions

from ops.row import Case, Row, floats, integers

aten = torch.ops.aten
X, CLASSES = floats(4, 5), torch.tensor([0, 4, 2, 1])


def every(count: int) -> Any:
    """Returns about `count` samples, evenly spread."""
    return lambda samples: samples[:: max(1, len(samples) // count)]


def cross_entropy(x: torch.Tensor, target: torch.Tensor, *arguments: Any) -> Case:
    return Case(
        lambda s, t, *w: aten.cross_entropy_loss(s, t, w[0] if w else None, *arguments),
        x,
        target,
        *([floats(5, seed=3).abs()] if len(arguments) != 1 else []),
    )


NO_FAKE = "PyTorch's fake kernel refuses aten::_ctc_loss and aten::ctc_loss"
CTC = floats(9, 3, 6).log_softmax(-1)  # time, batch, class
LABELS = torch.tensor([[1, 1, 2, 3], [5, -1, -1, -1], [4, 4, 4, 99]])  # with padding


def ctc_loss(
    x: torch.Tensor, inputs: Any, targets: Any, reduction: str = "none"
) -> list[torch.Tensor]:
    """With and without infinite losses."""
    return [
        F.ctc_loss(x, LABELS, inputs, targets, reduction=reduction, zero_infinity=zero)
        for zero in (False, True)
    ]


def ctc_loss_in_one(x: torch.Tensor, inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """The targets come one after the other."""
    return F.ctc_loss(x, torch.tensor([1, 1, 2, 3, 5, 4, 4, 4]), inputs, targets, blank=2)


def ctc_loss_of_one(x: torch.Tensor, inputs: torch.Tensor, target: torch.Tensor) -> Any:
    return [
        F.ctc_loss(x, LABELS[0, :3], inputs, target, reduction=reduction)
        for reduction in ("none", "mean", "sum")
    ]


def linear_cross_entropy(reduction: str, dtype: torch.dtype = torch.float32) -> Case:
    options = LinearCrossEntropyOptions(batch_chunk_size=2)

    def function(
        x: torch.Tensor, w: torch.Tensor, t: torch.Tensor, bias: torch.Tensor, weight: torch.Tensor
    ) -> list[torch.Tensor]:
        def loss(**arguments: Any) -> torch.Tensor:
            return F.linear_cross_entropy(
                x, w, t, reduction=reduction, options=options, **arguments
            )

        return [loss(), loss(linear_bias=bias, weight=weight, ignore_index=2)]

    return Case(
        function,
        *(floats(4, 3, dtype=dtype), floats(5, 3, seed=1, dtype=dtype), CLASSES),
        *(floats(5, seed=2, dtype=dtype), floats(5, seed=3, dtype=dtype).abs()),
    )


ROWS = [
    *(
        Row(
            f"torch_nn::_linear_cross_entropy_batch_chunked{suffix}",
            static="the targets, of another rank, would have to grow too",
            cases=tuple(
                linear_cross_entropy(reduction, dtype)
                for reduction in reductions
                for dtype in (torch.float32, torch.float64, torch.float16)
            ),
        )
        for suffix, reductions in (("", ("mean", "sum")), ("_no_reduction", ("none",)))
    ),
    Row("aten::mse_loss", opinfo="nn.functional.mse_loss"),
    Row("aten::l1_loss", opinfo="nn.functional.l1_loss"),
    Row(
        "aten::smooth_l1_loss",
        opinfo="nn.functional.smooth_l1_loss",
        cases=(Case(lambda x, y: aten.smooth_l1_loss(x, y, 0, 0.0), X, floats(4, 5, seed=1)),),
    ),
    Row("aten::huber_loss", opinfo="nn.functional.huber_loss"),
    Row("aten::binary_cross_entropy", opinfo="nn.functional.binary_cross_entropy"),
    Row(
        "aten::binary_cross_entropy_with_logits",
        opinfo="nn.functional.binary_cross_entropy_with_logits",
        pick=every(5),
    ),
    Row("aten::nll_loss_nd", opinfo="nn.functional.nll_loss", pick=every(6)),
    Row(
        (
            "aten::nll_loss",
            "aten::nll_loss2d",
            "aten::nll_loss_forward",
            "aten::nll_loss2d_forward",
        ),
        name="forms of nll_loss",
        cases=(
            Case(
                lambda x, t, images, labels: (
                    aten.nll_loss(x, t, None, 1, 4),
                    aten.nll_loss2d(images, labels, None, 2),
                    aten.nll_loss_forward(x, t, None, 1, 2),
                    aten.nll_loss2d_forward(images, labels, None, 1, 0),
                ),
                X,
                CLASSES,
                floats(4, 3, 2, 2),
                integers(4, 2, 2, low=0, high=3),
            ),
        ),
        static="all inputs share the batch",
    ),
    Row(
        "aten::cross_entropy_loss",
        opinfo="nn.functional.cross_entropy",
        pick=every(7),
        cases=(
            cross_entropy(X, CLASSES, 1, 2, 0.1),
            cross_entropy(X, CLASSES, 0, 2, 0.1),
            cross_entropy(X, CLASSES, 2),
            cross_entropy(X, X.softmax(1), 1, -100, 0.1),
            cross_entropy(floats(5), CLASSES[1], 1),
            cross_entropy(floats(4, 5, 2), integers(4, 2, low=0, high=5), 1, 3, 0.2),
        ),
    ),
    Row(
        "aten::ctc_loss.IntList",
        opinfo="nn.functional.ctc_loss",
        static="the time comes first",
        native_only=NO_FAKE,
        cases=tuple(
            Case(lambda x, r=reduction: ctc_loss(x, [9, 7, 0], [4, 0, 2], r), CTC)
            for reduction in ("none", "mean", "sum")
        ),
    ),
    Row(
        "aten::ctc_loss.Tensor",
        static="the time comes first",
        native_only=NO_FAKE,
        cases=(
            Case(ctc_loss, CTC, torch.tensor([9, 7, 0]), torch.tensor([4, 1, 0])),
            Case(ctc_loss_in_one, CTC, torch.tensor([9, 8, 7]), torch.tensor([4, 1, 3])),
            Case(ctc_loss_of_one, CTC[:, 0], torch.tensor(7), torch.tensor(3)),
        ),
    ),
    Row(
        "aten::_ctc_loss",
        static="the time comes first",
        native_only=NO_FAKE,
        cases=(Case(lambda x: aten._ctc_loss(x, LABELS, [9, 7, 3], [4, 0, 2], 1, True)[0], CTC),),
    ),
    Row("aten::kl_div", opinfo="nn.functional.kl_div", pick=every(5)),
    Row("aten::poisson_nll_loss", opinfo="nn.functional.poisson_nll_loss", pick=every(6)),
    Row("aten::soft_margin_loss", opinfo="nn.functional.soft_margin_loss"),
    Row("aten::margin_ranking_loss", opinfo="nn.functional.margin_ranking_loss"),
    Row("aten::hinge_embedding_loss", opinfo="nn.functional.hinge_embedding_loss"),
    Row("aten::cosine_embedding_loss", opinfo="nn.functional.cosine_embedding_loss"),
    Row("aten::triplet_margin_loss", opinfo="nn.functional.triplet_margin_loss"),
    Row(
        "aten::multi_margin_loss",
        opinfo="nn.functional.multi_margin_loss",
        static="the target's first dimension would have to grow too",
    ),
    Row("aten::multilabel_margin_loss", opinfo="nn.functional.multilabel_margin_loss"),
    Row(
        "aten::multilabel_margin_loss_forward",
        cases=(
            Case(
                lambda x, t: aten.multilabel_margin_loss_forward(x, t, 1),
                floats(2, 4),
                torch.tensor([[3, 0, -1, 1], [-1, 2, 0, 0]]),
            ),
        ),
    ),
]
