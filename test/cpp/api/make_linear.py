"""Writes linear.pt2, the program of program_test.cpp: python test/cpp/api/make_linear.py"""

import pathlib

import torch


class Linear(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(2, 3)
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))
        with torch.no_grad():
            self.linear.weight.copy_(torch.arange(6.0).view(3, 2))
            self.linear.bias.fill_(1)

    def forward(self, x):
        self.calls += 1
        return torch.relu(self.linear(x))


if __name__ == "__main__":
    program = torch.export.export(
        Linear(), (torch.ones(4, 2),), dynamic_shapes=({0: torch.export.Dim("rows")},)
    )
    for node in program.graph.nodes:
        node.meta.pop("stack_trace", None)
    torch.export.save(program, pathlib.Path(__file__).with_name("linear.pt2"))
