// The non-tensor nodes of a program: constants, attributes, calls, control flow, casts.
#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/ir/ir.h>

#include <algorithm>

#include "aten/unwritable.h"
#include "readers/jit/interpreter.h"

namespace onnx_native::readers::jit {
namespace {

using torch::jit::Symbol;

std::string name_of(const JitNode& node) { return node.s(Symbol::attr("name")); }

// Rejects writes to a constant tensor. A trace holds the tensor itself, whose value already
// includes the program's writes. Scripts hold no tensors.
void refuse_writes(Recorder& recorder, aten::Value* constant) {
  if (&recorder.graph() != &recorder.root()) return;
  recorder.graph().add_node(
      std::string(aten::kUnwritable),
      {constant, std::string("a tensor that the trace recorded as a constant, with its value after "
                             "the write; write to a clone() instead, or use torch.export or "
                             "torch.jit.script")});
}

std::optional<Items> constant(const Call& call) {
  const torch::jit::Value* output = call.node.output();
  if (output->type()->kind() == c10::TypeKind::FunctionType) return one(Item::none());
  std::optional<c10::IValue> value = torch::jit::toIValue(output);
  if (!value) call.run.unsupported("cannot export a constant of type " + output->type()->str());
  // A trace stores a Python number as a wrapped tensor, which does not promote as other tensors do.
  if (value->isTensor() && value->toTensor().unsafeGetTensorImpl()->is_wrapped_number())
    value = value->toTensor().item();
  Item item = call.run.item(*value, "constant");
  if (item.tensor()) refuse_writes(call.run.recorder(), item.tensor());
  return one(std::move(item));
}

const ContainerPtr& object_of(const Call& call, size_t i) {
  const auto* object = call.input(i).get<ContainerPtr>();
  if (!object || (*object)->kind != Container::Kind::object)
    call.run.unsupported("cannot access attributes of " + describe(call.input(i)));
  return *object;
}

// TorchScript keeps all buffers in state_dict.
aten::ConstantKind kind_of(const c10::ClassType& type, size_t slot) {
  if (!type.is_module()) return aten::ConstantKind::constant;
  return type.is_parameter(slot) ? aten::ConstantKind::parameter
         : type.is_buffer(slot)  ? aten::ConstantKind::buffer
                                 : aten::ConstantKind::constant;
}

// Returns an attribute; loads it from the object on its first read.
const Item& attribute(const Call& call, const ContainerPtr& object, const std::string& name) {
  const auto type = object->type->cast<c10::ClassType>();
  const std::optional<size_t> slot = type ? type->findAttributeSlot(name) : std::nullopt;
  if (!slot) {
    const std::optional<c10::IValue> known = type && type->findConstantSlot(name)
                                                 ? std::optional(type->getConstant(name))
                                                 : std::nullopt;
    if (!known) call.run.unsupported(concat(type->str(), " has no attribute ", name));
    static thread_local Item result;
    result = call.run.item(*known, name);
    return result;
  }
  if (object->items()[*slot].is_uninitialized() && object->object) {
    const std::string path = object->path.empty() ? name : object->path + "." + name;
    call.run.load(object, *slot,
                  call.run.item(object->object->getSlot(*slot), path, kind_of(*type, *slot)));
  }
  return object->items()[*slot];
}

std::optional<Items> get_attribute(const Call& call) {
  return one(attribute(call, object_of(call, 0), name_of(call.node)));
}

// self.modules[index] of a ModuleList or ModuleDict; its type is an interface.
std::optional<Items> module_at(const Call& call) {
  const ContainerPtr& modules = object_of(call, 0);
  const Item& index = call.input(1);
  const auto* known = index.get<c10::IValue>();
  if (known && known->isString()) return one(attribute(call, modules, known->toStringRef()));
  if (const auto number = index.integer())
    return one(attribute(call, modules, std::to_string(*number)));
  call.run.unsupported(
      "cannot select a module by an index that the model computes; use a constant index, or call "
      "all modules and select one of their results");
}

std::optional<Items> set_attribute(const Call& call) {
  const ContainerPtr& object = object_of(call, 0);
  const std::string name = name_of(call.node);
  attribute(call, object, name);
  const size_t slot = object->type->expectRef<c10::ClassType>().getAttributeSlot(name);
  call.run.change(object).items[slot] = call.input(1);
  return Items();
}

std::optional<Items> has_attribute(const Call& call) {
  const ContainerPtr& object = object_of(call, 0);
  return one(
      c10::IValue(object->type->expectRef<c10::ClassType>().hasAttribute(name_of(call.node))));
}

std::optional<Items> create_object(const Call& call) {
  const auto type = call.node.output()->type()->expect<c10::ClassType>();
  return one(make_container(Container::Kind::object, Items(type->numAttributes()), type));
}

std::optional<Items> call_method(const Call& call) {
  const ContainerPtr object = object_of(call, 0);
  const torch::jit::Function* method =
      object->type->expectRef<c10::ClassType>().findMethod(name_of(call.node));
  if (!method) call.run.unsupported("cannot find the method " + name_of(call.node));
  return call.run.run(*method, call.inputs, object.get(), &call.node);
}

std::optional<Items> call_function(const Call& call) {
  const auto type = call.node.input(0)->type()->cast<c10::FunctionType>();
  if (!type) call.run.unsupported("cannot call " + describe(call.input(0)));
  return call.run.run(*type->function(), Items(call.inputs.begin() + 1, call.inputs.end()), nullptr,
                      &call.node);
}

// Runs a forked graph immediately.
std::optional<Items> fork(const Call& call) {
  const std::shared_ptr<torch::jit::Graph> graph = call.node.g(Symbol::attr("Subgraph"));
  Items results = call.run.run(*graph->block(), call.inputs);
  if (results.size() == 1) return results;
  return one(make_container(Container::Kind::tuple, std::move(results)));
}

std::optional<Items> first_input(const Call& call) { return one(call.input(0)); }
std::optional<Items> nothing(const Call& call) {
  return Items(call.node.outputs().size(), Item::none());
}
std::optional<Items> uninitialized(const Call&) { return one(Item()); }

// Calls __enter__ or __exit__ of a context manager. Returns nullopt if it has no effect on a model.
std::optional<Items> call_manager(const Call& call, const char* name, size_t nones) {
  const ContainerPtr object = object_of(call, 0);
  const auto& type = object->type->expectRef<c10::ClassType>();
  const std::string class_name = type.name() ? type.name()->qualifiedName() : "";
  if (class_name.ends_with(".record_function")) return std::nullopt;
  if (class_name.find("autocast") != std::string::npos) {
    const auto slot = type.findAttributeSlot("_enabled");
    if (!slot || object->items()[*slot].boolean() != false)
      call.run.unsupported(
          "cannot export an autocast region of a scripted program; trace the module inside the "
          "region with torch.jit.trace, or capture it with torch.export");
    return std::nullopt;
  }
  const torch::jit::Function* method = type.findMethod(name);
  if (!method) call.run.unsupported(concat(class_name, " has no method ", name));
  Items arguments{object};
  arguments.resize(1 + nones, Item::none());
  return call.run.run(*method, std::move(arguments), object.get(), &call.node);
}

std::optional<Items> enter(const Call& call) {
  std::optional<Items> results = call_manager(call, "__enter__", 0);
  if (!results) results = one(call.input(0));
  results->resize(call.node.outputs().size());
  return results;
}

std::optional<Items> exit(const Call& call) {
  call_manager(call, "__exit__", 3);
  return Items(call.node.outputs().size(), Item::none());
}

// The exporting process's gradient and autocast modes do not affect the model.
std::optional<Items> off(const Call&) { return one(c10::IValue(false)); }

// Only the program's own changes of the gradient mode are visible to it.
std::optional<Items> is_grad_enabled(const Call& call) {
  return one(c10::IValue(call.run.grad_mode()));
}

std::optional<Items> set_grad_enabled(const Call& call) {
  const std::optional<bool> mode = call.input(0).boolean();
  if (!mode) call.run.unsupported("the gradient mode must be a constant");
  call.run.set_grad_mode(*mode);
  return Items();
}

std::optional<Items> raise(const Call& call) {
  const auto* message = call.size() > 0 ? call.input(0).get<c10::IValue>() : nullptr;
  fail(ErrorKind::invalid_program, "for these inputs the program raises an exception",
       message && message->isString() ? ": " + message->toStringRef() : "");
}

std::optional<Items> branch(const Call& call) { return call.run.branch(call.node, call.input(0)); }
std::optional<Items> loop(const Call& call) { return call.run.loop(call.node, call.inputs); }

// Returns the type of a value when the program runs. `declared` is its type in the program.
c10::TypePtr runtime_type(const Call& call, const Item& item, const c10::TypePtr& declared) {
  if (item.tensor()) return c10::TensorType::get();
  if (item.get<Dim>()) return c10::IntType::get();
  if (const aten::Value* number = item.number()) {
    if (number->type.kind == aten::Type::Kind::sym_bool) return c10::BoolType::get();
    return c10::FloatType::get();
  }
  if (const auto* constant = item.get<c10::IValue>()) return constant->type();
  if (item.container() && item.container()->type) return item.container()->type;
  constexpr c10::TypeKind kOpen[] = {c10::TypeKind::AnyType, c10::TypeKind::NumberType,
                                     c10::TypeKind::OptionalType, c10::TypeKind::UnionType};
  if (item.is_uninitialized() || std::ranges::find(kOpen, declared->kind()) != std::end(kOpen))
    call.run.unsupported(concat("cannot tell the type of ", describe(item), " for isinstance"));
  return declared;
}

std::optional<Items> is_instance(const Call& call) {
  const auto is_one = [&](const Item& item) {
    const c10::TypePtr type = runtime_type(call, item, call.node.inputs()[0]->type());
    return std::ranges::any_of(
        call.node.tys(Symbol::attr("types")),
        [&](const c10::TypePtr& wanted) { return type->isSubtypeOf(*wanted); });
  };
  const Maybe* maybe = call.input(0).maybe();
  if (!maybe) return one(c10::IValue(is_one(call.input(0))));
  const bool of_value = is_one(maybe->value);
  if (of_value == is_one(Item::none())) return one(c10::IValue(of_value));
  if (of_value) return one(maybe->present);
  return one(call.run.record_number("python::sym_not", {call.run.argument(maybe->present)}));
}

std::optional<Items> python_call(const Call& call) {
  call.run.unsupported(
      "cannot export a call of a Python function that is not part of the TorchScript program");
}

// `is` and `is not`, mostly with None.
std::optional<Items> is_same(const Call& call, bool wanted) {
  const Item& a = call.input(0);
  const Item& b = call.input(1);
  bool same = false;
  if (a.maybe() && b.is_none()) {
    const Item present = presence(a);
    if (!wanted) return one(present);
    return one(call.run.record_number("python::sym_not", {call.run.argument(present)}));
  }
  if (a.is_none() || b.is_none()) {
    same = a.is_none() && b.is_none();
  } else if (a.container() || b.container()) {
    same = a.container() == b.container();
  } else {
    same = are_equal(a, b);
  }
  return one(c10::IValue(same == wanted));
}

std::optional<Items> is_(const Call& call) { return is_same(call, true); }
std::optional<Items> is_not(const Call& call) { return is_same(call, false); }

// A string with data-dependent parts stays uninitialized, so any use of it is an error.
std::optional<Items> format(const Call& call) {
  if (std::ranges::all_of(call.inputs, is_known)) return std::nullopt;
  return one(Item());
}

// A type refinement, for example after `if x is not None`.
std::optional<Items> cast(const Call& call) {
  const bool to_none = call.node.output()->type()->kind() == c10::TypeKind::NoneType;
  const bool is_open = call.node.output()->type()->kind() == c10::TypeKind::OptionalType;
  if (!call.input(0).maybe() || is_open) return one(call.input(0));
  return one(to_none ? Item::none() : present_value(call.input(0)));
}

std::optional<Items> unwrap(const Call& call) {
  if (call.input(0).is_none())
    fail(ErrorKind::invalid_program,
         "for these inputs the program unwraps an Optional that is None");
  return one(present_value(call.input(0)));
}

}  // namespace

void add_program_handlers(Handlers& handlers) {
  handlers["prim::Constant"].push_back(constant);
  handlers["prim::GetAttr"].push_back(get_attribute);
  handlers["prim::SetAttr"].push_back(set_attribute);
  handlers["prim::HasAttr"].push_back(has_attribute);
  handlers["prim::ModuleContainerIndex"].push_back(module_at);
  handlers["prim::CreateObject"].push_back(create_object);
  handlers["prim::CallMethod"].push_back(call_method);
  handlers["prim::CallFunction"].push_back(call_function);
  handlers["prim::PythonOp"].push_back(python_call);
  handlers["prim::fork"].push_back(fork);
  handlers["aten::format"].push_back(format);
  handlers["aten::wait"].push_back(first_input);
  handlers["prim::unchecked_cast"].push_back(cast);
  handlers["prim::unchecked_unwrap_optional"].push_back(unwrap);
  handlers["aten::_unwrap_optional"].push_back(unwrap);
  handlers["prim::Uninitialized"].push_back(uninitialized);
  handlers["prim::Print"].push_back(nothing);
  handlers["aten::warn"].push_back(nothing);
  handlers["prim::Enter"].push_back(enter);
  handlers["prim::Exit"].push_back(exit);
  for (const std::string_view mode :
       {"aten::is_autocast_enabled", "aten::is_autocast_cpu_enabled", "aten::has_torch_function"}) {
    handlers[mode].push_back(off);
  }
  handlers["aten::is_grad_enabled"].push_back(is_grad_enabled);
  handlers["aten::set_grad_enabled"].push_back(set_grad_enabled);
  handlers["prim::RaiseException"].push_back(raise);
  handlers["prim::If"].push_back(branch);
  handlers["prim::Loop"].push_back(loop);
  handlers["prim::isinstance"].push_back(is_instance);
  handlers["aten::__is__"].push_back(is_);
  handlers["aten::__isnot__"].push_back(is_not);
}

}  // namespace onnx_native::readers::jit
