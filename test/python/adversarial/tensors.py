"""Programs that look at tensors: identity, memory, attributes, types, and copies."""

# mypy: ignore-errors

from __future__ import annotations

import copy
import io
import pickle
import weakref
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from adversarial.program import Table

Tensor = torch.Tensor
PROGRAMS = Table()
program, aside = PROGRAMS.program, PROGRAMS.aside


# Identity.


@program
def same_object(x: Tensor) -> Any:
    y = x
    return x * (2 if y is x else 3)


@program
def same_object_after_a_conversion(x: Tensor) -> Any:
    same = x.to(torch.float32) is x, x.contiguous() is x, x.float() is x
    return x * (2 if all(same) else 3)


@program
def another_object_after_a_conversion(x: Tensor) -> Any:
    other = x.double() is x, x.clone() is x, x.view(x.shape) is x, x.detach() is x
    return x * (3 if any(other) else 2)


@program
def written_after_a_conversion(x: Tensor) -> Any:
    y = x * 2
    y.to(torch.float32).add_(1)
    y.contiguous().mul_(2)
    y.double().add_(100)
    y.transpose(0, 1).contiguous().add_(1000)
    return y


@program
def in_place_returns_itself(x: Tensor) -> Any:
    y = x + 1
    return y * (5 if y.add_(1) is y else 7)


@program
def tensor_in_a_list(x: Tensor) -> Any:
    return x * (2 if x in [x] else 3)


@program
def tensor_as_key(x: Tensor) -> Any:
    by_tensor, by_id = {x: 4.0}, {id(x): 2.0}
    return x * by_tensor[x] + by_id[id(x)]


@program
def attribute_of_a_tensor(x: Tensor) -> Any:
    x.scale = 3.0
    y = x + 1
    return x * x.scale + y * getattr(y, "scale", 5.0)


@program
def weak_reference(x: Tensor) -> Any:
    y = x * 2
    reference = weakref.ref(y)
    alive = reference() is y
    del y
    return x * (2 if alive and reference() is None else 3)


@program
def weak_dictionary(x: Tensor) -> Any:
    cache: Any = weakref.WeakKeyDictionary()
    return x if x in cache else x * 2


@aside
def data_pointers(x: Tensor) -> Any:
    return x * (2 if x.data_ptr() == x[:1].data_ptr() else 3)


@aside
def same_storage(x: Tensor) -> Any:
    y = x.view(-1)
    return x * (2 if x.untyped_storage().data_ptr() == y.untyped_storage().data_ptr() else 3)


@aside
def base_of_a_view(x: Tensor) -> Any:
    return x * (2 if x.view(-1)._base is x else 3)


@aside
def is_a_view(x: Tensor) -> Any:
    return x * (2 if x[0]._is_view() else 3)


@aside
def set_to(x: Tensor) -> Any:
    return x * (2 if x.is_set_to(x) else 3)


@aside
def version(x: Tensor) -> Any:
    y = x * 2
    y.add_(1)
    return y * y._version


# Attributes.


@program
def gradient(x: Tensor) -> Any:
    return x * (2 if x.grad is None and not x.requires_grad else 3)


@program
def leaf(x: Tensor) -> Any:
    return x * (2 if x.is_leaf and x.grad_fn is None else 3)


@aside
def gradient_of_a_result(x: Tensor) -> Any:
    weight = nn.Parameter(torch.ones(4))
    with torch.enable_grad():
        y = x * weight
    return y * (2 if y.requires_grad else 3)


@aside
def required_gradient(x: Tensor) -> Any:
    y = x.clone().requires_grad_()
    return y * (2 if y.requires_grad else 3)


@aside
def computed_gradient(x: Tensor) -> Any:
    with torch.enable_grad():
        y = x.clone().requires_grad_()
        return torch.autograd.grad((y * y).sum(), y)[0]


@program
def device_and_layout(x: Tensor) -> Any:
    cpu = x.device.type == "cpu" and x.device == torch.device("cpu") and x.is_cpu
    plain = x.layout == torch.strided and not x.is_sparse and not x.is_cuda and not x.is_meta
    return x * (2 if cpu and plain and x.get_device() == -1 and str(x.device) == "cpu" else 3)


@program
def kinds(x: Tensor) -> Any:
    a = torch.is_tensor(x) and isinstance(x, torch.Tensor) and type(x) is torch.Tensor
    b = x.is_floating_point() and torch.is_floating_point(x) and not x.is_complex()
    c = not x.is_quantized and not x.is_nested and not x.is_mkldnn and x.is_signed()
    d = x.type() == "torch.FloatTensor" and x.__class__ is torch.Tensor
    e = not x.is_inference() and not isinstance(x, nn.Parameter)
    return x * (2 if a and b and c and d and e else 3)


@aside
def names_of_dimensions(x: Tensor) -> Any:
    return x * (2 if x.names == (None,) * 3 else 3)


@program
def instance_of_a_legacy_type(x: Tensor) -> Any:
    is_long = isinstance(x, torch.LongTensor) or type(x) is torch.FloatTensor
    return x * (2 if isinstance(x, torch.FloatTensor) and not is_long else 3)


@program
def legacy_constructors(x: Tensor) -> Any:
    scale = torch.sqrt(torch.FloatTensor([0.5]).to(x.device))
    filled = torch.FloatTensor(x.shape).fill_(2) + torch.FloatTensor(3, 1, 1).zero_().sum()
    return x * scale + filled, x.type(torch.DoubleTensor), torch.LongTensor([[1, 2]])


@program
def uint8_conditions(x: Tensor) -> Any:
    byte = (x > 0).to(torch.uint8)
    return torch.where(byte, x, -x), x.where(byte, x * 2)


@program
def dtypes(x: Tensor) -> Any:
    lowest = torch.finfo(x.dtype).min
    kind = torch.promote_types(x.dtype, torch.float16)
    both = torch.result_type(x, 2), (x > 0).dtype, (x.long() / 2).dtype
    right = kind is torch.float32 and both == (torch.float32, torch.bool, torch.float32)
    return x.masked_fill(x < 0, lowest) * (2 if right else 3)


@program
def conversions(x: Tensor) -> Any:
    return x.half().float(), x.double(), x.to(torch.int8), x.type(torch.float64), x.bool(), x.long()


@program
def contiguous_or_not(x: Tensor) -> Any:
    return x * (2 if x.is_contiguous() else 3)


@program
def contiguity_of_a_transpose(x: Tensor) -> Any:
    y = x.transpose(0, 1)
    return y * 5 if y.is_contiguous() else y + 1


@program
def strides_of_an_input(x: Tensor) -> Any:
    return x * x.stride(0) + x.stride(1) + x.storage_offset() + len(x.stride())


@aside
def strides_of_a_transpose(x: Tensor) -> Any:
    y = x.transpose(0, 1)
    return y * y.stride(0) + y.stride()[1]


@program
def as_strided(x: Tensor) -> Any:
    return x.as_strided((x.shape[0], 2), (x.stride(0), 1))


@aside
def offset_of_a_slice(x: Tensor) -> Any:
    return x[:, 1:] * x[:, 1:].storage_offset()


@program
def views(x: Tensor) -> Any:
    return x.T if x.dim() == 2 else x.mT, x.real, x.view_as(x), x.unflatten(2, (2, 2)), x[None]


@program
def complex_numbers(x: Tensor) -> Any:
    y = torch.view_as_complex(x.reshape(*x.shape[:-1], 2, 2))
    return torch.view_as_real(y * y.conj()), y.abs()


@aside
def lazy_conjugate(x: Tensor) -> Any:
    y = torch.view_as_complex(x.reshape(*x.shape[:-1], 2, 2)).conj()
    return x * (2 if y.is_conj() else 3)


# Copies.


@aside
def deep_copy(x: Tensor) -> Any:
    return copy.deepcopy(x) * 2


@aside
def copied_result(x: Tensor) -> Any:
    y = copy.copy(x * 2)
    y.add_(1)
    return y


@aside
def pickled(x: Tensor) -> Any:
    return pickle.loads(pickle.dumps(x)) * 2


@aside
def saved(x: Tensor) -> Any:
    file = io.BytesIO()
    torch.save(x, file)
    return x * 2


@program
def cloned(x: Tensor) -> Any:
    y = x.clone()
    y[:, 0] = 0
    return x, y


@program
def copied_into(x: Tensor) -> Any:
    y = torch.zeros_like(x)
    y.copy_(x).add_(1)
    return y, torch.empty_like(x).copy_(x)


@program
def data_of_a_result(x: Tensor) -> Any:
    y = x * 2
    y.data.add_(1)
    return y


@aside
def replaced_data(x: Tensor) -> Any:
    y = x * 2
    y.data = x * 3
    return y


@aside
def set_storage(x: Tensor) -> Any:
    y = torch.empty(0)
    y.set_(x)
    return y * 2


@aside
def resized(x: Tensor) -> Any:
    y = torch.empty(0)
    y.resize_(x.shape).fill_(2)
    return y + x


@aside
def transposed_in_place(x: Tensor) -> Any:
    y = x * 2
    y.transpose_(0, 1).unsqueeze_(0)
    return y


@aside
def written_input(x: Tensor) -> Any:
    y = x.add_(1)
    return y * 2


@aside
def written_view_of_an_input(x: Tensor) -> Any:
    x[:, 0].zero_()
    return x * 2


@program
def written_view(x: Tensor) -> Any:
    y = x * 2
    y[:, 0, 1:].mul_(3)
    y.view(-1)[0] = 9
    y.transpose(0, 1)[0].add_(1)
    return y


@program
def out_arguments(x: Tensor) -> Any:
    result = torch.empty(x.shape[0], x.shape[1], 4)
    torch.add(x, 1, out=result)
    return result, torch.cat([x, x], 0, out=torch.empty(x.shape[0] * 2, x.shape[1], 4))


@program
def chosen_by_a_mask(x: Tensor) -> Any:
    y = x.clone()
    y[y > 0] = 5
    return y, torch.where(x > 0, x, 0.0), x.masked_fill(x > 1, 2)


@program
def wrapped_numbers(x: Tensor) -> Any:
    i = x.long()
    return i * 2.5, i + True, 3 / (i.abs() + 1), 2**x, i // 2, i % 3, -x, ~(x > 0), i == 1.5


@program
def parameter_made_inside(x: Tensor) -> Any:
    return x * nn.Parameter(torch.ones(4) * 3) + torch.tensor([1.0, 2.0, 3.0, 4.0])


@aside
def parameter_of_a_recorded_tensor(x: Tensor) -> Any:
    y = nn.Parameter(x * 2)
    return y * (2 if isinstance(y, nn.Parameter) else 3)


# Elements.


@aside
def branch_on_an_element(x: Tensor) -> Any:
    return x * 2 if x.sum() > 0 else x


@aside
def item(x: Tensor) -> Any:
    return x * x.max().item()


@aside
def list_of_elements(x: Tensor) -> Any:
    return x * x[0, 0].tolist()[0]


@aside
def numpy_in_between(x: Tensor) -> Any:
    return x * torch.from_numpy(np.tanh(x.numpy()))


@aside
def numpy_function(x: Tensor) -> Any:
    return torch.as_tensor(np.exp(x)) + 1


@aside
def numpy_on_the_left(x: Tensor) -> Any:
    return torch.as_tensor(np.ones(4, np.float32) * x)


@aside
def equal_tensors(x: Tensor) -> Any:
    return x * (2 if torch.equal(x, x * 1) else 3)


@aside
def tensor_in_another_list(x: Tensor) -> Any:
    return x * (2 if x[0, 0, 0] in [x[0, 0, 1], x[0, 0, 0]] else 3)


@aside
def asserted_elements(x: Tensor) -> Any:
    assert torch.isfinite(x).all()
    return x + 1


@aside
def nonzero_elements(x: Tensor) -> Any:
    return x[x > 0].sum(), torch.nonzero(x > 0).shape[0] * x


@aside
def unique_elements(x: Tensor) -> Any:
    return x.round().unique().sum() * x


@aside
def text_of_a_tensor(x: Tensor) -> Any:
    return x * len(str(x.sum()))


@aside
def index_by_an_element(x: Tensor) -> Any:
    return x[:, int(x.abs().argmax()) % x.shape[1]]


@aside
def element_as_index(x: Tensor) -> Any:
    return [1.0, 2.0, 3.0, 4.0][x.sum(dim=(0, 1)).argmax()] * x


@program
def tensor_index(x: Tensor) -> Any:
    last = torch.tensor(x.shape[2] - 1)
    return x[..., last], x[:, torch.zeros(2, dtype=torch.long)]


@aside
def constant_elements(x: Tensor) -> Any:
    steps = torch.linspace(0, 1, 3).tolist()
    return x * steps[1] if torch.tensor([1, 2]).sum() == 3 else x


@aside
def computed_constants(x: Tensor) -> Any:
    scale = torch.arange(4).float().mean()
    return x * scale.item() if scale > 1 else x


@program
def sdpa(x: Tensor) -> Any:
    mask = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).tril()
    return (
        F.scaled_dot_product_attention(x, x, x, is_causal=True),
        F.scaled_dot_product_attention(x, x, x, attn_mask=mask),
    )


@program
def accumulated_from_nothing(x: Tensor) -> Any:
    result = torch.empty(0, 4)
    for _ in range(2):
        result = torch.cat([result, x[0]])
    return result


@aside
def sparse_in_between(x: Tensor) -> Any:
    return x.to_sparse().to_dense() * 2


@aside
def named_dimensions(x: Tensor) -> Any:
    return x.refine_names("b", "n", "c").sum("c").rename(None)


@program
def same_result_twice(x: Tensor) -> Any:
    y = x * 2
    return y, y, x, x.view(-1), None, {"b": y, "a": [x, (y,)]}, 3, 2.5, True


@program
def results_without_inputs(x: Tensor) -> Any:
    return torch.ones(3), torch.arange(4), x.shape[1] * 2


@aside
def text_as_result(x: Tensor) -> Any:
    return x * 2, "text"
