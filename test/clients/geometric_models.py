"""Exports graph networks of PyTorch Geometric with a dynamic number of nodes, edges and graphs.

Needs torch_geometric: see README.md. Each model is compared with PyTorch at the sizes of the
example and at others.
"""

from typing import Any

import comparison
import torch
import torch_geometric.nn as geometric
from torch import Tensor, nn

WIDTH = 8
LAYERS: dict[str, Any] = {
    "GCNConv": geometric.GCNConv,
    "GATConv": lambda a, b: geometric.GATConv(a, b // 2, heads=2),
    "GATv2Conv": lambda a, b: geometric.GATv2Conv(a, b // 2, heads=2),
    "SAGEConv": geometric.SAGEConv,
    "SAGEConv of maxima": lambda a, b: geometric.SAGEConv(a, b, aggr="max"),
    "GINConv": lambda a, b: geometric.GINConv(nn.Sequential(nn.Linear(a, b), nn.ReLU())),
    "GraphConv": geometric.GraphConv,
    "TransformerConv": lambda a, b: geometric.TransformerConv(a, b // 2, heads=2),
}
POOLS = ("global_add_pool", "global_mean_pool", "global_max_pool")


class Net(nn.Module):
    """Two layers; with a pool, a result for each graph."""

    def __init__(self, layer: str, pool: str = "", count: str = "") -> None:
        super().__init__()
        self.first, self.second = LAYERS[layer](WIDTH, WIDTH), LAYERS[layer](WIDTH, WIDTH)
        self.pool, self.count = getattr(geometric, pool) if pool else None, count
        self.head = nn.Linear(WIDTH, 3)

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor, graphs: Tensor) -> Tensor:
        x = self.second(self.first(x, edge_index).relu(), edge_index)
        if self.pool is None:
            return self.head(x)
        size = graphs.shape[0] if self.count == "given" else None
        return self.head(self.pool(x, batch, size))


class Nodes(Net):
    """Without a pool."""

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:  # type: ignore[override]
        return self.head(self.second(self.first(x, edge_index).relu(), edge_index))


class Counted(Net):
    """The number of graphs comes from the data, as in most programs."""

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:  # type: ignore[override]
        x = self.second(self.first(x, edge_index).relu(), edge_index)
        assert self.pool is not None
        return self.head(self.pool(x, batch))


def example(nodes: int, edges: int, graphs: int) -> tuple[Tensor, ...]:
    generator = torch.Generator().manual_seed(nodes)
    batch = torch.arange(nodes) * graphs // nodes
    edge_index = torch.randint(nodes, (2, edges), generator=generator)
    x = torch.randn(nodes, WIDTH, generator=generator)
    return x, edge_index, batch, torch.zeros(graphs)


EXAMPLES = [example(10, 24, 2), example(7, 5, 3), example(31, 90, 5), example(4, 1, 1)]
DYNAMIC = ({0: "nodes"}, {1: "edges"}, {0: "nodes"}, {0: "graphs"})


def cases() -> dict[str, comparison.Case]:
    found: dict[str, comparison.Case] = {}

    def add(name: str, model: nn.Module, count: int) -> None:
        """Adds a model that takes so many of the inputs."""
        examples = [each[:count] for each in EXAMPLES]
        found[f"geometric {name}"] = model.eval, examples, DYNAMIC[:count]

    for name in LAYERS:
        add(name, Nodes(name), 2)
    for pool in POOLS:
        add(f"{pool} of graphs", Counted("GCNConv", pool), 3)
        add(f"{pool} of a given number of graphs", Net("GCNConv", pool, "given"), 4)
    return found


if __name__ == "__main__":
    comparison.start()
    comparison.of_models(cases())
