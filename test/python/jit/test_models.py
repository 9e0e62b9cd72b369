"""torchvision's models, scripted and traced, and a traced BERT."""

import pytest

from .models import MODELS
from .running import check


@pytest.mark.parametrize("name", MODELS)
def test_model(name):
    check(*MODELS[name]())
