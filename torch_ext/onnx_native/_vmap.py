"""Programs with torch.vmap: torch.export records that a function is mapped, not what that does."""

from __future__ import annotations

import torch

_RECORDS = "torch._functorch.predispatch"


def unfold(program: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
    """The program with its mapped functions written out on whole batches; itself without any."""
    mapped = any(
        getattr(node.target, "__module__", None) == _RECORDS
        for module in program.graph_module.modules()
        if isinstance(module, torch.fx.GraphModule)
        for node in module.graph.nodes
        if node.op == "call_function"
    )
    if not mapped:
        return program
    # Traces the program again, for which PyTorch runs the mapping; decomposes nothing else that it
    # need not.
    try:
        return program.run_decompositions({})
    except Exception:
        # torch.export records derivatives (torch.func.grad) wrongly; the lowering says what it
        # cannot do of them.
        return program
