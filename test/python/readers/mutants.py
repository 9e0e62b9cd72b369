"""Damaged programs: archives whose recorded operators, dtypes, ranks, sizes or counts are changed.

    PYTHONPATH=build/python:test/python python -m readers.mutants pt2 --count 3000
    PYTHONPATH=build/python:test/python python -m readers.mutants jit --count 1000 \\
        --command build/onnx-native

A mutant depends on its seed alone. Each is exported in a process with little memory; a crash, an
export without enough memory or time, and an internal error are findings.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import copy
import io
import json
import os
import pathlib
import random
import re
import resource
import signal
import subprocess
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import onnx_native
import torch
from jit.programs import PROGRAMS
from scenarios import SCENARIOS
from scenarios.scenario import export

C = onnx_native._C
MODEL = "models/model.json"
WEIGHTS = "data/weights/model_weights_config.json"
MEMORY = 2 << 30  # bytes that an export may take
COMMAND_KIB = 3 << 20  # of `ulimit -v`: libtorch takes 1 GiB of addresses
SECONDS = 20
NOT_LOADED = "PyTorch's loader ends"

NUMBERS = (0, 1, -1, 2, 3, -2, 7, 64, 1 << 20, 1 << 31, 1 << 40, 1 << 62, (1 << 63) - 1, -1 << 63)
REALS = (0.0, -1.0, 0.5, 1e300, "Infinity", "NaN")
EXPRESSIONS = ("s0", "u0", "s0*s0", "-s0", "s0 - 100", "s0**60", "s0//0", "Mod(s0, 0)", "1/0", "")
SCENARIO_NAMES = (
    *("set_item_mask", "diagonal_write", "masked_and_scatter", "BufferedConstant"),
    *("cond_nested", "cond_size_operand", "CondWithWeights", "while_several_states"),
    *("while_carries_a_size", "scan_several_states", "map_trees", "NoGradRegion"),
    *("hinted", "takes_dynamic_int", "takes_list_with_none", "gives_sizes", "derived_dimension"),
    *("created_from_shape", "cropped_by_content", "non_zero", "complex_parts", "rolled"),
)

Records = dict[str, bytes]
Random = random.Random
Mutate = Callable[[Records, Random], Records]


class Layers(torch.nn.Module):
    """Layers of all ranks, with views, a write, and results in a list."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution = torch.nn.Conv2d(3, 4, 3, padding=1)
        self.norm = torch.nn.BatchNorm2d(4)
        self.linear = torch.nn.Linear(16, 8)
        self.attention = torch.nn.MultiheadAttention(8, 2, batch_first=True)
        self.recurrent = torch.nn.LSTM(8, 4, batch_first=True)

    def forward(self, x: torch.Tensor, index: torch.Tensor) -> Any:
        y = torch.nn.functional.max_pool2d(self.norm(self.convolution(x)).relu(), 2)
        y = torch.nn.functional.interpolate(y, scale_factor=2.0).flatten(2)
        y = self.linear(y[..., :16]).clone()
        y[:, 1:3].transpose(1, 2).mul_(2)
        y = self.attention(y, y, y)[0]
        y, _ = self.recurrent(y)
        chunks = y.reshape(x.shape[0], 2, -1).unbind(1)
        return torch.cat(chunks, 1), y.cumsum(1)[index], *torch.topk(y.sum(-1), 2), y.split(2, 1)


def parsed(records: Records, name: str) -> Any:
    return json.loads(records[name])


def containers(at: Any) -> Iterator[Any]:
    """Yields every dict and list of a tree."""
    if isinstance(at, dict | list):
        yield at
        for value in at.values() if isinstance(at, dict) else at:
            yield from containers(value)


def graphs(model: Any) -> list[Any]:
    return [at for at in containers(model) if isinstance(at, dict) and "tensor_values" in at]


def other_value(value: Any, choose: Random) -> Any:
    """Returns another value of a field of the archive."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return choose.choice((*NUMBERS, value + 1, -value))
    if isinstance(value, float):
        return choose.choice(REALS)
    return choose.choice(EXPRESSIONS) if isinstance(value, str) else choose.choice(NUMBERS)


def change_sizes(sizes: list[Any], choose: Random) -> None:
    """Changes a size, or the rank."""
    how = choose.randrange(5)
    if how == 0 and sizes:
        del sizes[choose.randrange(len(sizes))]
    elif how == 1:
        repeated = choose.choice((1, 1, 1, 30))
        sizes[:0] = [{"as_int": choose.choice(NUMBERS)}] * repeated
    elif how == 2:
        choose.shuffle(sizes)
    elif how == 3 and sizes:
        expression = {"expr_str": choose.choice(EXPRESSIONS), "hint": None}
        sizes[choose.randrange(len(sizes))] = {"as_expr": expression}
    elif sizes:
        sizes[choose.randrange(len(sizes))] = {"as_int": choose.choice(NUMBERS)}


def change_meta(meta: Any, choose: Random) -> None:
    field = choose.choice(("dtype", "sizes", "sizes", "sizes", "strides", "storage_offset"))
    if field == "dtype":
        meta["dtype"] = choose.randrange(1, 45)
    elif field == "storage_offset":
        meta[field] = {"as_int": choose.choice(NUMBERS)}
    else:
        change_sizes(meta[field], choose)


def change_type(model: Any, choose: Random) -> None:
    metas = [meta for graph in graphs(model) for meta in graph["tensor_values"].values()]
    change_meta(choose.choice(metas), choose)


def change_number(model: Any, choose: Random) -> None:
    """Changes a number or an expression anywhere: an argument, a range, a hint, a count."""
    places = [
        (at, key)
        for at in containers(model)
        for key in (at if isinstance(at, dict) else range(len(at)))
        if isinstance(at[key], int | float) or key == "expr_str"
    ]
    at, key = choose.choice(places)
    at[key] = other_value(at[key], choose)


def change_operator(model: Any, choose: Random) -> None:
    nodes = [node for graph in graphs(model) for node in graph["nodes"]]
    node = choose.choice(nodes)
    if choose.randrange(3) == 0:
        node["target"] = choose.choice(nodes)["target"]
        return
    name = choose.choice(OPERATORS)
    default = "" if "." in name else ".default"
    node["target"] = f"torch.ops.{name.replace('::', '.')}{default}"


def change_argument(model: Any, choose: Random) -> None:
    """Drops, repeats, or exchanges an argument, an element, or a result."""
    lists = [at for at in containers(model) if isinstance(at, list) and at]
    at = choose.choice(lists)
    place = choose.randrange(len(at))
    how = choose.randrange(4)
    if how == 0:
        del at[place]
    elif how == 1:
        at.insert(place, at[place])
    elif how == 2:
        at.extend([at[place]] * 40)
    else:
        at[place] = copy.deepcopy(choose.choice(choose.choice(lists)))


def change_tensor(model: Any, choose: Random) -> None:
    """Makes a use name another tensor."""
    uses = [
        at["as_tensor"]
        for at in containers(model)
        if isinstance(at, dict) and isinstance(at.get("as_tensor"), dict)
    ]
    choose.choice(uses)["name"] = choose.choice(uses)["name"]


def change_weight(config: Any, choose: Random) -> None:
    metas = [at for at in containers(config) if isinstance(at, dict) and "storage_offset" in at]
    if metas:
        change_meta(choose.choice(metas), choose)


CHANGES = (
    *(change_type, change_type, change_type, change_number, change_number),
    *(change_operator, change_operator, change_argument, change_tensor),
)
OPERATORS = sorted({op for op, _ in C.table_keys() if op.startswith(("aten::", "quantized::"))})


def mutate_archive(records: Records, choose: Random) -> Records:
    if choose.randrange(12) == 0:
        config = parsed(records, WEIGHTS)
        change_weight(config, choose)
        return {**records, WEIGHTS: json.dumps(config).encode()}
    model = parsed(records, MODEL)
    for _ in range(choose.choice((1, 1, 2, 3))):
        choose.choice(CHANGES)(model, choose)
    return {**records, MODEL: json.dumps(model).encode()}


def changed_word(word: str, choose: Random) -> str:
    types = ("Tensor", "int", "float", "bool", "List[int]", "List[Tensor]", "Optional[Tensor]")
    if word.startswith("torch."):
        names = [op[6:].partition(".")[0] for op in OPERATORS if op.startswith("aten::")]
        return "torch." + choose.choice(names)
    if word in types:
        return choose.choice(types)
    if re.fullmatch(r"-?\d+\.\d*", word):
        return choose.choice(("0.", "-1.", "0.5", "1.0e+300"))
    if word in ("True", "False"):
        return "False" if word == "True" else "True"
    return str(choose.choice(NUMBERS[:-1]))


WORD = re.compile(r"\btorch\.\w+|\b(?:Tensor|int|float|bool|True|False)\b|(?<![\w.])-?\d+\.?\d*")


def mutate_script(records: Records, choose: Random) -> Records:
    """Changes operator names, types and numbers of the source, or the sizes of an input."""
    if "extra/inputs" in records and choose.randrange(8) == 0:
        text = records["extra/inputs"].decode()
        found = re.finditer(r"(?<=[\[,])\w+(?=[\],])", text)
        start, end = choose.choice([size.span() for size in found] or [(len(text), len(text))])
        new = choose.choice(("0", "1", "2", "n", str(1 << 40), str((1 << 62) - 1), "2,3"))
        text = text[:start] + new + text[end:]
        return {**records, "extra/inputs": text.encode()}
    sources = [name for name in records if name.endswith(".py")]
    name = choose.choice(sources)
    text = records[name].decode()
    for _ in range(choose.choice((1, 1, 2))):
        words = list(WORD.finditer(text, max(text.find("def "), 0)))
        if not words:
            break
        word = choose.choice(words)
        text = text[: word.start()] + changed_word(word.group(), choose) + text[word.end() :]
    return {**records, name: text.encode()}


def read_records(archive: bytes) -> Records:
    with zipfile.ZipFile(io.BytesIO(archive)) as file:
        return {name.partition("/")[2]: file.read(name) for name in file.namelist()}


def write_records(records: Records, path: pathlib.Path) -> None:
    with zipfile.ZipFile(path, "w") as file:
        for name, data in records.items():
            file.writestr(f"model/{name}", data)


def archives(few: bool = False) -> Iterator[Records]:
    """Yields the programs of the .pt2 mutants."""
    names = SCENARIO_NAMES[::4] if few else SCENARIO_NAMES
    programs = [
        torch.export.export(
            Layers().eval(),
            (torch.randn(2, 3, 8, 8), torch.tensor([0, 1])),
            dynamic_shapes=({0: torch.export.Dim("n", min=2, max=64)}, None),
        )
    ]
    for scenario in SCENARIOS:
        if scenario.name in names:
            program = export(scenario).exported_program
            assert program is not None
            programs.append(program)
    for program in programs:
        file = io.BytesIO()
        torch.export.save(program, file)
        yield read_records(file.getvalue())


def input_line(name: str, value: torch.Tensor | float, sizes: dict[int, str]) -> str:
    """Returns an input spec of the command line: "x:float32[batch,4]"."""
    tensor = torch.as_tensor(value)
    shape = [sizes.get(axis, str(size)) for axis, size in enumerate(tensor.shape)]
    return f"{name}:{str(tensor.dtype).removeprefix('torch.')}[{','.join(shape)}]"


def scripts(few: bool = False) -> Iterator[Records]:
    """Yields the programs of the TorchScript mutants; extra/inputs describes their inputs."""
    programs: list[Any] = list(PROGRAMS.values())
    for module, inputs, dynamic_shapes in programs[::4] if few else programs:
        script: Any = torch.jit.script(module.eval())
        if not all(isinstance(value, torch.Tensor | int | float) for value in inputs[0]):
            continue
        names = [argument.name for argument in script.forward.schema.arguments[1:]]
        sizes = [d or {} for d in dynamic_shapes]
        items = zip(names, inputs[0], sizes, strict=False)
        file = io.BytesIO()
        lines = "\n".join(input_line(*item) for item in items)
        torch.jit.save(script, file, _extra_files={"inputs": lines})
        records = read_records(file.getvalue())
        yield {name: data for name, data in records.items() if not name.endswith("debug_pkl")}


KINDS: dict[str, tuple[Callable[..., Iterator[Records]], Mutate]] = {
    "pt2": (archives, mutate_archive),
    "jit": (scripts, mutate_script),
}


@dataclass(frozen=True)
class Outcome:
    """What the export of a mutant did: its last output, and how its process ended."""

    output: str
    status: int  # the exit code, or the negative number of the signal that ended the process
    memory: int = 0  # bytes that it took

    @property
    def verdict(self) -> str:
        if self.status < 0:
            return signal.Signals(-self.status).name
        if "[internal]" in self.output:
            return "internal error"
        if self.memory > MEMORY or "out of memory" in self.output or "bad_alloc" in self.output:
            return "out of memory"
        return "exported" if self.status == 0 else "refused"

    @property
    def is_finding(self) -> bool:
        return self.verdict not in ("exported", "refused", NOT_LOADED)


class NotLoaded(Outcome):
    """PyTorch's own loader does not survive the file."""

    verdict = NOT_LOADED


def arguments(path: pathlib.Path, records: Records) -> list[str]:
    """Returns the command's arguments for a mutant."""
    lines = records.get("extra/inputs", b"").decode().splitlines()
    return [
        str(path),
        "-o",
        f"{path}.onnx",
        *(part for line in lines for part in ("--input", line)),
    ]


def limit_memory(more: int) -> None:
    size = int(pathlib.Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + more, size + more))


def in_child(work: Callable[[], int], memory: int = 2 * MEMORY) -> Outcome:
    """Runs `work` in a copy of this process, with limits on its time and memory."""
    with tempfile.TemporaryFile() as output:
        child = os.fork()
        if child == 0:
            os.dup2(output.fileno(), 1)
            os.dup2(output.fileno(), 2)
            for number in (signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE):
                signal.signal(number, signal.SIG_DFL)
            signal.alarm(SECONDS)
            limit_memory(memory)
            code = 3
            try:
                code = work()
            finally:
                os._exit(code)
        _, status, used = os.wait4(child, 0)
        output.seek(0)
        text = output.read().decode(errors="replace")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return Outcome(text, os.waitstatus_to_exitcode(status), (used.ru_maxrss - before) << 10)


def loads(path: pathlib.Path) -> int:
    with contextlib.suppress(RuntimeError):
        torch.jit.load(path)
    return 0


def outcome(path: pathlib.Path, records: Records) -> Outcome:
    """Exports a mutant in a process of its own."""
    write_records(records, path)
    if "constants.pkl" in records:
        loaded = in_child(lambda: loads(path))
        if loaded.status != 0:
            return NotLoaded(loaded.output, loaded.status, loaded.memory)
    return in_child(lambda: C.command_line(arguments(path, records)))


def outcome_of_command(command: str, path: pathlib.Path, records: Records) -> Outcome:
    """Exports a mutant by the command, with `ulimit -v`."""
    write_records(records, path)
    run = subprocess.run(
        [
            "bash",
            "-c",
            'ulimit -v "$0"; exec "$@"',
            str(COMMAND_KIB),
            command,
            *arguments(path, records),
        ],
        capture_output=True,
        text=True,
        errors="replace",
        timeout=60,
        check=False,
    )
    return Outcome(run.stdout + run.stderr, run.returncode)


def mutant(kind: str, programs: list[Records], seed: int) -> Records:
    choose = Random(seed)
    return KINDS[kind][1](choose.choice(programs), choose)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--command", help="the command that exports; by default, its function")
    parser.add_argument("--keep", type=pathlib.Path, help="a folder for the mutants of findings")
    options = parser.parse_args()
    programs = list(KINDS[options.kind][0]())
    verdicts: collections.Counter[str] = collections.Counter()
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "mutant"
        for seed in range(options.first, options.first + options.count):
            records = mutant(options.kind, programs, seed)
            if options.command:
                result = outcome_of_command(options.command, path, records)
            else:
                result = outcome(path, records)
            verdicts[result.verdict] += 1
            if result.is_finding:
                print(f"seed {seed}: {result.verdict}: {result.output[:600]}", flush=True)
                if options.keep:
                    options.keep.mkdir(exist_ok=True)
                    write_records(records, options.keep / f"{options.kind}_{seed}.{options.kind}")
    print(dict(verdicts))


if __name__ == "__main__":
    main()
