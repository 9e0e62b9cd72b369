"""Every operator of TorchScript on numbers, strings, lists and dicts: right or refused."""

from jit.walk import walk


def test_no_operator_is_wrong(recwarn):
    result = walk(count=3)
    assert not result.wrong, result.wrong[0]
    assert result.operators > 600
    assert result.tried["right"] > 2500
    # Constants are refused only where a tensor is a key, or where the operator is not for models.
    refused = {key for key, source, _, _ in result.refused if source == "constants"}
    assert not {key for key in refused if is_basic(key)}


def is_basic(key: str) -> bool:
    return key.endswith((".int", ".float", ".bool", ".str", ".complex")) and not key.startswith(
        ("aten::as_tensor", "aten::copy_", "prim::EnumValue")
    )
