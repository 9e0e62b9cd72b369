"""Reductions, scans, sorting."""

from __future__ import annotations

from storm.families.registry import assign, family
from storm.maker import Maker

WHOLE = ("sum", "mean", "prod", "amax", "amin", "max", "min", "any", "all", "std", "var", "numel")
ALONG = (
    *("sum", "mean", "prod", "amax", "amin", "any", "all", "logsumexp", "argmax", "argmin"),
    *("cumsum", "cumprod", "nansum", "count_nonzero", "norm", "std", "var", "softmax", "sum"),
)


@family(2)
def whole(maker: Maker) -> bool:
    name = maker.tensor()
    op = maker.pick(*WHOLE)
    extra = f"dtype={maker.dtype()}" if op in ("sum", "prod") and maker.chance(0.2) else ""
    return assign(maker, f"{name}.{op}({extra})", "i" if op == "numel" else "t")


@family(4)
def along(maker: Maker) -> bool:
    name = maker.tensor()
    op, axis = maker.pick(*ALONG), maker.dim(name)
    keep = maker.pick("", ", keepdim=True")
    if op in ("cumsum", "cumprod", "softmax", "count_nonzero"):
        keep = f", dtype={maker.dtype()}" if op.startswith("cum") and maker.chance(0.2) else ""
    if op in ("std", "var"):
        keep += maker.pick("", ", unbiased=False", ", correction=0") if not keep else ""
    if op == "norm":
        return assign(maker, f"torch.norm({name}, {maker.pick(1, 2, 3)}, dim={axis}{keep})")
    both = f"({axis}, {maker.dim(name)})" if op in ("sum", "mean", "amax", "std") else axis
    target = both if maker.chance(0.3) else axis
    return assign(maker, f"torch.{op}({name}, dim={target}{keep})")


@family(2)
def ordered(maker: Maker) -> bool:
    name = maker.real()
    axis = maker.dim(name)
    largest = maker.pick("", ", largest=False")
    names = [maker.fresh(), maker.fresh()]
    k = maker.pick(1, 1, 2)
    how = maker.pick(
        f"torch.topk({name}, {k}, dim={axis}{largest})",
        f"torch.max({name}, dim={axis})",
        f"torch.min({name}, dim={axis}, keepdim=True)",
        f"torch.sort({name}, dim={axis}, stable=True)",
        f"torch.sort({name}, dim={axis}, stable=True, descending=True)",
        f"torch.cummax({name}, {axis})",
        f"torch.cummin({name}, {axis})",
        f"torch.median({name}.clone(), dim={axis})",
        f"torch.kthvalue({name}, 1, dim={axis})",
        f"torch.var_mean({name}, dim={axis})",
        f"torch.std_mean({name}, dim={axis}, keepdim=True)",
        f"torch.aminmax({name}, dim={axis})",
    )
    if maker.chance(0.3):
        return assign(maker, f"{how}[0]")
    # The index among ties differs, so the program does not compute with these indices.
    tied = any(word in how for word in ("topk", "median", "kthvalue"))
    return maker.add(f"{', '.join(names)} = {how}", *names[: 1 if tied else 2])


@family(1)
def special(maker: Maker) -> bool:
    name = maker.real()
    axis = maker.dim(name)
    return assign(
        maker,
        maker.pick(
            f"torch.argsort({name}, dim={axis}, stable=True)",
            f"torch.diff({name}, dim={axis})",
            f"torch.logcumsumexp({name}, {axis})",
            f"torch.trapezoid({name}, dim={axis})",
            f"torch.bucketize({name}, torch.tensor([-1.0, 0.0, 0.5, 2.0]))",
            f"torch.searchsorted(torch.tensor([-1.0, 0.0, 0.5, 2.0]), {name})",
            f"torch.quantile({name}, 0.5, dim={axis})",
            f"torch.renorm({name}, 2, {axis}, 1.0)",
            f"torch.cumulative_trapezoid({name}, dim={axis})",
            f"torch.nanmean({name}, dim={axis})",
            f"torch.argmax({name})",
            f"torch.argmin({name})",
            f"torch.histc({name}, 4, -2, 2)",
            f"torch.bincount({name})",
            f"F.one_hot({name}.long().abs(), 8)",
            f"F.one_hot({name} % 4, 4)",
        ),
    )
