#include "readers/pt2/reader.h"

#include <set>
#include <unordered_set>

#include "aten/example_sizes.h"
#include "aten/guard.h"
#include "aten/shape_changes.h"
#include "aten/strides.h"
#include "readers/pt2/archive.h"
#include "readers/pt2/graph_reader.h"
#include "readers/pt2/weights.h"

namespace onnx_native::readers::pt2 {
namespace {

using aten::Argument;

// The supported schema version; see torch/_export/serde/schema.py.
constexpr int64_t kSchemaMajor = 8;

[[noreturn]] void refuse_without_model(const Archive& archive) {
  if (archive.has("serialized_exported_program.json"))
    fail(ErrorKind::invalid_program, archive.path(),
         " was saved by an older PyTorch; load it with torch.export.load and save it again with "
         "PyTorch ",
         ONNX_NATIVE_TORCH_VERSION);
  std::set<std::string> others;
  archive.records().for_each_name([&](std::string_view name) {
    constexpr std::string_view kFolder = "models/", kEnding = ".json";
    if (!name.starts_with(kFolder) || !name.ends_with(kEnding)) return;
    name.remove_prefix(kFolder.size());
    others.emplace(name.substr(0, name.size() - kEnding.size()));
  });
  std::string found;
  for (const std::string& name : others) found += (found.empty() ? "" : ", ") + name;
  fail(ErrorKind::invalid_program, archive.path(), " has no program ", kModel,
       others.empty()
           ? "; save it with torch.export.save"
           : concat(", but ", found, "; save each program by itself with torch.export.save"));
}

Json parse_model(const Archive& archive) {
  if (!archive.has(kModel)) refuse_without_model(archive);
  Json model = Json::parse(archive.text(kModel), nullptr, /*allow_exceptions=*/false);
  if (model.is_discarded()) damaged(concat(kModel, " is not valid JSON"));
  const int64_t major = integer(field(field(model, "schema_version"), "major"), "schema version");
  if (major != kSchemaMajor)
    fail(ErrorKind::invalid_program, archive.path(), " has schema version ", major,
         "; this build reads version ", kSchemaMajor, ", the version of PyTorch ",
         ONNX_NATIVE_TORCH_VERSION);
  return model;
}

// Collects the names that arguments refer to. Unused weights are not read.
void collect_names(const Json& value, std::unordered_set<std::string>& names) {
  std::vector<const Json*> open{&value};
  while (!open.empty()) {
    const Json& at = *open.back();
    open.pop_back();
    if (at.is_object()) {
      for (const auto& [key, inner] : at.items()) {
        if ((key == "name" || key == "as_name") && inner.is_string()) {
          names.insert(inner.get<std::string>());
        } else {
          open.push_back(&inner);
        }
      }
    } else if (at.is_array()) {
      for (const Json& inner : at) open.push_back(&inner);
    }
  }
}

std::unordered_set<std::string> used_names(const Json& graph) {
  std::unordered_set<std::string> names;
  for (const Json& node : list(field(graph, "nodes"), "nodes"))
    for (const Json& input : list(field(node, "inputs"), "inputs"))
      collect_names(field(input, "arg"), names);
  collect_names(field(graph, "outputs"), names);
  return names;
}

// Returns the kind of a weight. `kind` and `spec` are those of its input in the archive.
aten::ConstantKind kind_of(std::string_view kind, const Json& spec) {
  if (kind == "parameter") return aten::ConstantKind::parameter;
  if (kind != "buffer") return aten::ConstantKind::constant;
  const Json* persistent = optional_field(spec, "persistent");
  const bool is_temporary = persistent && persistent->is_boolean() && !persistent->get<bool>();
  return is_temporary ? aten::ConstantKind::temporary_buffer : aten::ConstantKind::buffer;
}

class ProgramReader {
 public:
  explicit ProgramReader(const std::string& path)
      : archive_(path),
        model_(parse_model(archive_)),
        source_(field(field(model_, "graph_module"), "graph")),
        signature_(field(field(model_, "graph_module"), "signature")),
        weights_(archive_),
        types_(model_),
        graph_(std::make_unique<aten::Graph>()),
        body_(types_, source_, *graph_) {}

  std::unique_ptr<aten::Graph> read(const std::vector<InputSpec>& inputs) {
    for (const InputSpec& input : inputs) name_sizes(input);
    const std::unordered_set<std::string> used = used_names(source_);
    for (const Json& spec : list(field(signature_, "input_specs"), "input_specs"))
      read_input(spec, used);
    check_guards();
    body_.read_nodes();
    read_outputs();
    aten::check_shape_changes(*graph_);
    aten::mark_false_aliases(*graph_);
    aten::check_squeezes(*graph_, types_.hints());
    return std::move(graph_);
  }

 private:
  // Gives the symbols in the sizes of an input their names in `wanted`.
  void name_sizes(const InputSpec& wanted) {
    std::string known;
    for (const Json& spec : list(field(signature_, "input_specs"), "input_specs")) {
      const auto [kind, value] = choice(spec, "an input");
      if (kind != "user_input") continue;
      const auto [what, argument] = choice(field(value, "arg"), "an input");
      if (what != "as_tensor") continue;
      const std::string& name = string(field(argument, "name"), "an input");
      if (name == wanted.name)
        return name_sizes(wanted, field(field(source_, "tensor_values"), name.c_str()));
      known += (known.empty() ? "" : ", ") + name;
    }
    fail(ErrorKind::invalid_argument, archive_.path(), " has no tensor input ", wanted.name,
         "; its inputs are ", known);
  }

  void name_sizes(const InputSpec& wanted, const Json& meta) {
    const auto differs = [&](const auto&... what) {
      fail(ErrorKind::invalid_argument, "the input ", wanted.name, " of ", archive_.path(), " has ",
           what..., "; export the program again for other inputs");
    };
    if (wanted.constant || wanted.elements) differs("a tensor, not a constant or a list");
    const DType dtype = dtype_of(field(meta, "dtype"));
    if (wanted.dtype != dtype) differs("the dtype ", name(dtype), ", not ", name(wanted.dtype));
    if (!wanted.shape) return;
    const Json::array_t& sizes = list(field(meta, "sizes"), "sizes");
    if (sizes.size() != wanted.shape->size())
      differs(sizes.size(), " dimensions, not ", wanted.shape->size());
    for (size_t axis = 0; axis < sizes.size(); ++axis)
      name_size(wanted, axis, sizes[axis], differs);
  }

  void name_size(const InputSpec& wanted, size_t axis, const Json& size, const auto& differs) {
    const Dim& given = (*wanted.shape)[axis];
    const auto [kind, value] = choice(size, "a size");
    if (kind == "as_int") {
      if (!given.equals(integer(value, "a size")))
        differs("the fixed size ", integer(value, "a size"), " in dimension ", axis, ", not ",
                given.str());
      return;
    }
    const std::optional<Dim> size_of_program =
        parse_dim(string(field(value, "expr_str"), "expr_str"),
                  [](std::string_view name) { return Dim::symbol(name, DimRange::integer()); });
    const std::string text = size_of_program ? size_of_program->str() : "?";
    if (given.is_constant())
      differs("the dynamic size ", text, " in dimension ", axis, ", not ", given.str());
    if (!size_of_program || !size_of_program->is_symbol())
      differs("the size ", text, " in dimension ", axis, ", which has no name");
    if (const auto [at, is_new] = symbols_.emplace(given.str(), text);
        !is_new && at->second != text)
      differs("another size in dimension ", axis, " than the first ", given.str());
    if (types_.name_of(text) != text && types_.name_of(text) != given.str())
      differs("the same size ", types_.name_of(text), " in dimension ", axis, ", not ",
              given.str());
    const Json* ranges = optional_field(model_, "range_constraints");
    if (given.str() != text && ranges && ranges->is_object() && ranges->contains(given.str()))
      differs("another size with the name ", given.str());
    types_.rename(text, given.str());
  }

  // Returns the strides of an input in the example; nullopt if it was contiguous.
  std::optional<std::vector<aten::Stride>> scattered_strides(const aten::Value& input,
                                                             const Json& given) {
    const Shape strides = types_.dims(given, "strides");
    if (strides.size() != input.type.shape->size())
      damaged(concat(input.name, " must have one stride per size"));
    return aten::scattered_strides(input.type, strides);
  }

  void read_input(const Json& spec, const std::unordered_set<std::string>& used) {
    const auto [kind, value] = choice(spec, "an input");
    if (kind == "user_input") {
      const auto [what, argument] = choice(field(value, "arg"), "an input");
      if (what != "as_tensor" && !what.starts_with("as_sym_")) return;
      if (what != "as_tensor" && !argument.contains("as_name")) return;  // a constant
      const std::string& name = string(
          what == "as_tensor" ? field(argument, "name") : field(argument, "as_name"), "an input");
      types_.set_reads(what == "as_tensor" ? Types::Reads::tensor_input
                                           : Types::Reads::integer_input);
      aten::Type type = body_.type_of(what, argument);
      types_.set_reads(Types::Reads::result);
      aten::Value* input = graph_->add_input(name, std::move(type));
      if (what == "as_tensor") {
        if (auto strides = scattered_strides(*input, field(body_.tensor_meta(argument), "strides")))
          graph_->scattered_inputs.push_back({input, std::move(*strides)});
      }
      body_.define(name, input);
      return;
    }
    const char* target = kind == "parameter"         ? "parameter_name"
                         : kind == "buffer"          ? "buffer_name"
                         : kind == "tensor_constant" ? "tensor_constant_name"
                                                     : nullptr;
    if (kind == "constant_input") return;
    const std::string& name = string(field(field(value, "arg"), "name"), "an input's name");
    if (kind == "token") return body_.define(name, {});
    if (!target) return;  // a script object
    if (!used.contains(name)) return;
    const std::string& full_name = string(field(value, target), target);
    TensorData data = weights_.find(full_name, kind == "tensor_constant");
    body_.define(name, graph_->add_constant(full_name, std::move(data), kind_of(kind, value)));
  }

  // Throws if a range or guard pins a dimension that the program leaves dynamic. The guard
  // `size == ...` is allowed: that size is a constant in the program.
  void check_guards() const {
    const Json* ranges = optional_field(model_, "range_constraints");
    if (ranges && ranges->is_object()) {
      for (const auto& [symbol, range] : ranges->items()) {
        const Json* least = range.is_object() ? optional_field(range, "min_val") : nullptr;
        const Json* most = range.is_object() ? optional_field(range, "max_val") : nullptr;
        if (least && most && least->is_number_integer() && *least == *most &&
            types_.hints().contains(types_.name_of(symbol))) {
          const std::string& name = types_.name_of(symbol);
          fail(ErrorKind::unsupported,
               aten::describe_pin(concat(name, " == ", least->dump()), name));
        }
      }
    }
    const Json* guards = optional_field(model_, "guards_code");
    if (!guards || !guards->is_array()) return;
    for (const Json& guard : *guards) {
      if (!guard.is_string()) continue;
      const auto& text = guard.get_ref<const std::string&>();
      for (const std::string& size : aten::pinned_sizes(text)) {
        if (!text.starts_with(size + " == "))
          fail(ErrorKind::unsupported, aten::describe_pin(text, size));
      }
    }
  }

  void read_outputs() {
    const std::vector<Argument> outputs = body_.outputs();
    const Json::array_t& specs = list(field(signature_, "output_specs"), "output_specs");
    if (outputs.size() != specs.size()) damaged("the outputs do not match the signature");
    for (size_t i = 0; i < specs.size(); ++i) {
      const auto [kind, value] = choice(specs[i], "an output");
      if (kind == "user_output") {
        graph_->outputs.push_back(outputs[i]);
      } else if (kind == "buffer_mutation" || kind == "parameter_mutation" ||
                 kind == "user_input_mutation") {
        const char* target = kind == "buffer_mutation"      ? "buffer_name"
                             : kind == "parameter_mutation" ? "parameter_name"
                                                            : "user_input_name";
        graph_->mutations.push_back({.target = string(field(value, target), target),
                                     .is_buffer = kind != "user_input_mutation",
                                     .value = outputs[i].as_value()});
      }
    }
  }

  Archive archive_;
  Json model_;
  const Json& source_;
  const Json& signature_;
  Weights weights_;
  Types types_;
  std::unique_ptr<aten::Graph> graph_;
  GraphReader body_;
  std::unordered_map<std::string, std::string> symbols_;  // by their names
};

}  // namespace

std::unique_ptr<aten::Graph> read(const std::string& path, const std::vector<InputSpec>& inputs) {
  Dim::restart_fresh();  // the same program gives the same names
  return ProgramReader(path).read(inputs);
}

}  // namespace onnx_native::readers::pt2
