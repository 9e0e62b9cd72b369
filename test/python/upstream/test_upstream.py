"""The private names of PyTorch that onnx_native uses. A failure shows what breaks and where."""

from __future__ import annotations

import ast
import functools
import pathlib
import re
import sys
from types import ModuleType
from typing import Any

import onnx_native
import pytest
import torch
from models.loading import loaded
from onnx_native.upstream import _flags, _upstream

SOURCE = "".join(p.read_text() for p in pathlib.Path(onnx_native.__file__).parent.rglob("*.py"))
HERE = f"torch {torch.__version__}: adapt torch_ext/onnx_native/upstream/_upstream.py"


@pytest.mark.parametrize("name", _upstream.NAMES)
def test_name_exists(name: str) -> None:
    assert getattr(_upstream, name) is not None  # the error states the purpose of the name


@pytest.mark.parametrize("name", _upstream.NAMES)
def test_name_is_used(name: str) -> None:
    use = re.compile(rf'\b_upstream\.{name}\b|\b_load\("{name}"\)|import {name}\b')
    assert use.search(SOURCE), f"{name} is unused; remove it"


def test_the_checker_sees_the_names() -> None:
    source = pathlib.Path(_upstream.__file__).read_text()
    block = next(node for node in ast.parse(source).body if isinstance(node, ast.If))
    seen: dict[str, tuple[str, str]] = {}
    for node in ast.walk(block):
        if isinstance(node, ast.ImportFrom):
            seen |= {alias.asname or "": (node.module or "", alias.name) for alias in node.names}
        elif isinstance(node, ast.Import):
            seen |= {alias.asname or "": (alias.name, "") for alias in node.names}
        elif isinstance(node, ast.AnnAssign):  # not in PyTorch's stubs
            name = ast.unparse(node.target)
            seen[name] = _upstream.NAMES[name][:2]
    for name, (module, attribute, _) in _upstream.NAMES.items():
        outer, _, inner = module.rpartition(".")
        assert seen.pop(name) in ((module, attribute), (outer, inner)), name
    assert not seen


PRIVATE = [
    "import torch._decomp",
    "from torch.utils import _pytree",
    "from torch._ops import OpOverload",
    "from torch.fx.experimental.symbolic_shapes import ShapeEnv",
    "torch.utils._pytree.tree_leaves(x)",
    "op._schema",
    "size.node.expr",
    "importlib.import_module('torch.onnx._internal.exporter._compat')",
]
PUBLIC = [
    "from torch.export import Dim",
    "import torch.export.graph_signature",
    "self._schema",
    "torch.ops.aten._assert_scalar.default",
    "node.meta",
    "raise ValueError('see torch._dynamo for more')",
    "type(x).__name__",
]


@pytest.mark.parametrize(
    ("line", "found"), [*((x, True) for x in PRIVATE), *((x, False) for x in PUBLIC)]
)
def test_the_linter_finds_private_names(line: str, found: bool) -> None:
    assert bool(list(rules_of_the_linter().private_uses(line))) == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("sys.modules.get('transformers.cache_utils')", True),
        ("KNOWN = {'torch', 'torchvision'}", True),
        ("path.startswith('diffusers.')", True),
        ("raise ValueError('transformers has no caches')", False),
        ("target = 'onnxruntime-cpu'", False),
    ],
)
def test_the_linter_finds_names_of_libraries(text: str, found: bool) -> None:
    rules = rules_of_the_linter()
    assert bool(list(rules.library_names(text))) == found
    for place, is_breach in [("request/_a.py", found), ("_libraries.py", False), ("_a.py", found)]:
        breaches = list(rules.package_breaches(pathlib.Path(place), text))
        assert bool(breaches) == is_breach, breaches


def test_the_linter_finds_frames_that_hold_themselves() -> None:
    breaches = functools.partial(rules_of_the_linter().package_breaches, pathlib.Path("_a.py"))
    assert list(breaches("frame = inspect.currentframe()"))
    assert not list(breaches("caller = sys._getframe(1)"))


def rules_of_the_linter() -> ModuleType:
    return loaded(pathlib.Path(__file__).parents[3] / ".ci" / "lint_rules.py")


def test_a_missing_name_says_what_breaks(monkeypatch: pytest.MonkeyPatch) -> None:
    missing = _upstream.Name("torch._ops", "OldName", "to tell operators apart")
    monkeypatch.setitem(_upstream.NAMES, "missing", missing)
    said = (
        r"PyTorch .* has no torch\._ops\.OldName, which onnx_native needs to tell operators apart"
    )
    with pytest.raises(ImportError, match=said):
        _ = _upstream.missing
    with pytest.raises(AttributeError, match="unknown"):
        _ = _upstream.unknown


class Halves(torch.nn.Module):
    def forward(self, x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
        rows = n.item()
        torch._check(rows < x.shape[0])
        return x[:rows].reshape(-1, 2)


@pytest.fixture(scope="module")
def program() -> torch.export.ExportedProgram:
    return torch.export.export(
        Halves(),
        (torch.ones(6, 4), torch.tensor(2)),
        dynamic_shapes=({0: torch.export.Dim.DYNAMIC}, None),
    )


@pytest.fixture
def size(program: torch.export.ExportedProgram) -> torch.SymInt:
    (value, _) = (node.meta["val"] for node in program.graph.nodes if node.op == "placeholder")
    return value.shape[0]


def test_sizes(size: torch.SymInt) -> None:
    assert _upstream.expression(size).is_Symbol, HERE
    assert not _upstream.expression(size).is_number, HERE
    assert _upstream.example_size(size) == 6, HERE
    assert [str(s) for s in _upstream.free_symbols(size)] == [str(size)], HERE
    # The C++ reader (torch_ext/plugin/fx_types.cpp) reads these.
    assert size.node._expr is size.node._expr, HERE
    symbol = _upstream.expression(size)
    bounds = _upstream.shape_env(size).var_to_range[symbol]
    assert bounds.lower.is_Integer, HERE


def test_shape_env(size: torch.SymInt) -> None:
    env = _upstream.shape_env(size)
    assert isinstance(env, _upstream.ShapeEnv), HERE
    assert callable(_upstream.ShapeEnv.cleanup), HERE
    expression = _upstream.expression(size)
    assert env.simplify(expression + expression) == 2 * expression, HERE
    for guard in env.guards:
        assert hasattr(guard, "expr"), HERE
        assert hasattr(guard, "sloc"), HERE
    asserts = [each for group in env.deferred_runtime_asserts.values() for each in group]
    assert asserts, HERE
    assert all(hasattr(each, "expr") and hasattr(each, "stack") for each in asserts), HERE


def test_captured_nodes(program: torch.export.ExportedProgram) -> None:
    (view,) = (n for n in program.graph.nodes if "reshape" in str(n.target))
    assert isinstance(view.target, _upstream.OpOverload), HERE
    # The C++ reader (torch_ext/plugin/fx_location.cpp) reads these.
    assert "test_upstream.py" in view.meta["stack_trace"], HERE
    assert next(iter(view.meta["nn_module_stack"].values()))[0] == "", HERE


def test_loaded_guards(program: torch.export.ExportedProgram, tmp_path: pathlib.Path) -> None:
    torch.export.save(program, tmp_path / "model.pt2")
    loaded = torch.export.load(tmp_path / "model.pt2")
    assert hasattr(program, "_guards_code"), HERE
    assert all(isinstance(guard, str) for guard in _upstream.loaded_guards(loaded)), HERE


def test_schemas() -> None:
    add = _upstream.schema(torch.ops.aten.add_.Tensor)
    assert [argument.name for argument in add.arguments] == ["self", "other", "alpha"], HERE
    assert [argument.is_write for argument in add.arguments] == [True, False, False], HERE
    assert [argument.kwarg_only for argument in add.arguments] == [False, False, True], HERE
    assert add.returns[0].alias_info is not None, HERE
    assert (add.name, add.overload_name) == ("aten::add_", "Tensor"), HERE


def test_dispatch_cache() -> None:
    operator: Any = torch.ops.aten.lstm.input
    operator._dispatch_cache["key"] = None
    _upstream.clear_dispatch_cache(operator)
    assert "key" not in operator._dispatch_cache, HERE


def test_keeping_copies() -> None:
    before = _upstream.exported_program._remove_unnecessary_copy_op_pass
    with _upstream.keeping_copies():
        assert _upstream.exported_program._remove_unnecessary_copy_op_pass is not before, HERE
    assert _upstream.exported_program._remove_unnecessary_copy_op_pass is before, HERE


def test_forward_of_a_script() -> None:
    script = torch.jit.script(torch.nn.ReLU())
    names = [argument.name for argument in _upstream.forward_schema(script).arguments]
    assert names == ["self", "input"], HERE


def test_children() -> None:
    assert _upstream.children({"b": 1, "a": 2}) == [1, 2], HERE
    assert _upstream.children((1, [2])) == [1, [2]], HERE
    assert _upstream.children(torch.ones(2)) is None, HERE
    assert _upstream.children(None) is None, HERE


def test_hints() -> None:
    hints = torch.export.Dim
    assert isinstance(hints.AUTO, _upstream.DimHint), HERE
    assert _upstream.is_static_hint(hints.STATIC), HERE
    assert not any(map(_upstream.is_static_hint, (hints.AUTO, hints.DYNAMIC, "n", 3, None))), HERE


def test_modes() -> None:
    with torch.device("meta"):
        assert torch.ones(1).is_meta
        with _upstream.disable_current_modes(), torch.device("cpu"):
            assert torch.ones(1).is_cpu, HERE


def test_tracing() -> None:
    with _upstream.FakeTensorMode() as mode:
        fake = torch.ones(2, 3)
    assert _upstream.detect_fake_mode([fake]) is mode, HERE
    silu = torch.ops.aten.silu.default
    table = {silu: _upstream.decomposition_table[silu]}
    with mode, _upstream.enable_python_dispatcher():
        module = _upstream.make_fx(lambda x: silu(x), decomposition_table=table)(fake)
    assert all(node.target is not silu for node in module.graph.nodes), HERE


def test_operators_that_always_decompose() -> None:
    assert _upstream.is_cia_op(torch.ops.aten.flatten.using_ints), HERE
    assert not _upstream.is_cia_op(torch.ops.aten.add.Tensor), HERE
    assert isinstance(_upstream.is_preservable_cia_op(torch.ops.aten.flatten.using_ints), bool)


def test_capture_strategies() -> None:
    strategy: Any = _upstream.CAPTURE_STRATEGIES[0](
        verbose=False, dump=False, artifacts_dir=pathlib.Path(), timestamp=""
    )
    result = strategy(torch.nn.ReLU(), (torch.ones(2),), None, dynamic_shapes=None)
    assert result.exported_program is not None, HERE
    assert result.exception is None, HERE
    assert isinstance(result.strategy, str), HERE


def test_messages_of_a_capture() -> None:
    strategy = _upstream.CAPTURE_STRATEGIES[0](verbose=True)
    said: list[str] = []
    _upstream.print_by(strategy, said.append)
    strategy(torch.nn.ReLU(), (torch.ones(2),), None, dynamic_shapes=None)
    assert any("torch.export.export" in text for text in said), HERE


def test_exporting_flag() -> None:
    questions = (
        torch.compiler.is_compiling,
        torch.compiler.is_exporting,
        torch.onnx.is_in_onnx_export,
    )
    code = [each.__code__ for each in questions]
    for question in questions:
        with _flags.answers(**{question.__name__: True}):
            assert question() is True, HERE
            with _flags.answers(**{question.__name__: False}):
                assert question() is False, HERE
            assert question() is True, HERE
            assert sum(each() for each in questions) == 1, HERE
        assert question() is False, HERE
    assert code == [each.__code__ for each in questions], HERE


def test_dynamic_shapes() -> None:
    spec = {"x": {0: "n"}, "y": [None, torch.export.Dim.AUTO], "z": None}
    flat, _ = _upstream.flatten_dynamic_shapes(spec)
    assert flat[:2] == [spec["x"], spec["y"]], HERE


def test_compiled() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return x + 1

    for program in (torch.nn.ReLU(), function):
        assert _upstream.compiled_from(torch.compile(program)) is program, HERE
        assert _upstream.compiled_from(program) is None, HERE


def test_errors() -> None:
    for name in ("TorchExportError", "ConversionError", "GraphConstructionError"):
        error = getattr(_upstream, name)
        assert issubclass(error, torch.onnx.errors.OnnxExporterError), HERE
    assert "export" in _upstream.STEP_ONE_ERROR_MESSAGE, HERE
    assert "boom" in _upstream.summarize_exception_stack(ValueError("boom")), HERE


def test_running_a_program() -> None:
    import onnx_ir as ir
    import onnxruntime as ort

    x = torch.ones(2)
    assert list(_upstream.process_args((x, None), {})) == [x], HERE
    value = ort.OrtValue.ortvalue_from_numpy(x.numpy())
    assert torch.equal(_upstream.from_ort_value(value), x), HERE
    weight = ir.Value(name="w", const_value=ir.tensor([1.0, 2.0], ir.DataType.FLOAT))
    graph = ir.Graph([], [], nodes=[], initializers=[weight])
    assert _upstream.count_initializer_size(graph) == 8, HERE
    assert _upstream.LARGE_MODEL_THRESHOLD < 2**31, HERE
    assert callable(_upstream.ort_session_initializer), HERE


def test_program_fields() -> None:
    """The methods that onnx_native.ONNXProgram inherits read fields that it sets itself."""
    inherited = set(vars(torch.onnx.ONNXProgram)) - set(vars(onnx_native.ONNXProgram))
    names = {
        name
        for method in inherited
        if hasattr(code := getattr(torch.onnx.ONNXProgram, method), "__code__")
        for name in code.__code__.co_names
        if name in {"_inference_session", "_tempdir", "_capture_strategy"}
    }
    assert names == {"_inference_session", "_tempdir"}, HERE


def test_function_library() -> None:
    registry = _upstream.function_library()
    assert all(isinstance(found, list) for found in registry.functions.values()), HERE
    captured = torch.export.export(torch.nn.Softmax(1), (torch.ones(2, 3),))
    (node,) = captured.graph.find_nodes(op="call_function", target=torch.ops.aten.softmax.int)
    function, _ = _upstream.dispatch(node, registry)
    assert callable(function), HERE
    empty = _upstream.empty_function_library(20)
    assert empty.opset_version == 20, HERE
    assert empty.functions == {}, HERE
    empty.register_op(torch.ops.aten.relu.default, lambda x: x, is_complex=False)
    overloads = _upstream.get_onnx_implemented_overloads(empty)
    table = _upstream.create_onnx_friendly_decomposition_table(set(overloads))
    assert torch.ops.aten.relu.default not in table, HERE


def test_replaying_functions() -> None:
    import onnxscript

    opset = _upstream.onnxscript_opset(_upstream.TORCHLIB_OPSET)
    recorder = _upstream.op_recorder(opset)
    symbol = _upstream.SymbolicTensor(opset, name="x")
    symbol.dtype = _upstream.torch_dtype_to_onnx_dtype(torch.float32)
    with onnxscript.evaluator.default_as(recorder):
        opset.Relu(symbol)
    assert [node.op_type for node in recorder.nodes] == ["Relu"], HERE
    assert recorder.functions == {}, HERE
    assert int(_upstream.TORCH_DTYPE_TO_ONNX[torch.int64]) == 7, HERE


def test_type_promotion() -> None:
    rule = _upstream.TypePromotionTable().get_rule(torch.ops.aten.add)
    snapshot = rule.preview_type_promotion((torch.ones(1), torch.ones(1, dtype=torch.int64)), {})
    assert snapshot.args_dtypes[1] == torch.float32, HERE
    assert snapshot.out_dtype == torch.float32, HERE
    assert snapshot.kwargs_dtypes == {}, HERE


def test_mapped_functions() -> None:
    def mapped(x: torch.Tensor) -> torch.Tensor:
        return torch.vmap(torch.sin)(x)

    class Mapping(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return mapped(x)

    program = torch.export.export(Mapping(), (torch.ones(2, 3),))
    modules = {getattr(node.target, "__module__", None) for node in program.graph.nodes}
    assert _upstream.VMAP in modules, HERE


def test_the_place_of_compat() -> None:
    before = _upstream.loaded_compat()
    stand_in = ModuleType("stand_in")
    try:
        _upstream.put_compat(stand_in)
        from torch.onnx._internal.exporter import _compat

        assert _compat is stand_in, HERE
        assert sys.modules[_upstream.COMPAT] is stand_in, HERE
        _upstream.put_compat(None)
        from torch.onnx._internal.exporter import _compat as upstream

        assert callable(upstream.export_compat), HERE
    finally:
        _upstream.put_compat(before)


def test_a_compiler_that_another_thread_imports_is_not_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compiled = torch.compile(torch.nn.Linear(2, 2))
    assert _upstream.compiled_from(compiled) is not None
    monkeypatch.setattr(sys.modules["torch._dynamo"].__spec__, "_initializing", True, raising=False)
    assert _upstream.compiled_from(compiled) is None
    with _upstream.as_written():
        pass
