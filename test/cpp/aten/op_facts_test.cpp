// Checks the table of operator facts against the schemas of all registered operators.
#include "aten/op_facts.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "aten/higher_order.h"
#include "aten/torch_types.h"

namespace onnx_native::aten {
namespace {

std::vector<const Schema*> all_schemas() {
  std::vector<const Schema*> schemas;
  for (const c10::OperatorName& known : c10::Dispatcher::singleton().getAllOpNames()) {
    if (const Schema* schema = find_schema(key_of(known))) schemas.push_back(schema);
  }
  return schemas;
}

bool is_for(const OpFactsRow& row, const Schema& schema) {
  return row.name == schema.name || row.name == schema.key;
}

std::vector<const Schema*> schemas_of(const OpFactsRow& row) {
  static const std::vector<const Schema*> kSchemas = all_schemas();
  std::vector<const Schema*> found;
  std::ranges::copy_if(kSchemas, std::back_inserter(found),
                       [&](const Schema* schema) { return is_for(row, *schema); });
  return found;
}

bool gives_tensors(const Schema& schema) {
  return std::ranges::all_of(schema.returns, [](const SchemaArgument& result) {
    return result.type.kind == TypeKind::tensor;
  });
}

TEST(OpFacts, RowsAreOrderedAndOfRegisteredOperators) {
  const std::span<const OpFactsRow> rows = fact_rows();
  for (size_t i = 1; i < rows.size(); ++i) EXPECT_LT(rows[i - 1].name, rows[i].name);
  // PyTorch 2.15 does not have the deprecated aten::qr anymore. torchvision is not loaded here.
  for (const OpFactsRow& row : rows)
    EXPECT_TRUE(!schemas_of(row).empty() || row.name == "aten::qr" ||
                row.name.starts_with("torchvision::"))
        << row.name;
  for (const std::string_view family : scattered_families()) {
    EXPECT_TRUE(std::ranges::any_of(all_schemas(), [family](const Schema* schema) {
      return schema->name.starts_with(family);
    })) << family;
  }
}

TEST(OpFacts, RowsSayWhatSchemasDoNot) {
  for (const OpFactsRow& row : fact_rows()) {
    EXPECT_FALSE(row.facts == OpFacts()) << row.name << " has no facts";
    const bool is_overload = row.name.find('.') != row.name.npos;
    if (is_overload) continue;  // the row states how the overload differs from the operator
    EXPECT_NE(row.facts.view, ViewKind::other) << row.name << ": the schema says so";
    for (const Schema* schema : schemas_of(row)) {
      const bool is_clear = schema->returns.empty() && !schema->is_mutable();
      EXPECT_FALSE(row.facts.check && is_clear) << schema->key << ": the schema says so";
    }
  }
}

TEST(OpFacts, OverloadsDifferFromTheirOperators) {
  const std::span<const OpFactsRow> rows = fact_rows();
  for (const OpFactsRow& row : rows) {
    const size_t dot = row.name.find('.');
    if (dot == row.name.npos) continue;
    const auto of_name = std::ranges::find(rows, row.name.substr(0, dot), &OpFactsRow::name);
    EXPECT_TRUE(of_name == rows.end() || !(of_name->facts == row.facts)) << row.name;
  }
}

TEST(OpFacts, ViewsEqualAliasAnnotations) {
  for (const OpFactsRow& row : fact_rows()) {
    for (const Schema* schema : schemas_of(row)) {
      const OpFacts& facts = facts_of(*schema);
      if (schema->is_mutable() || !gives_tensors(*schema)) continue;
      if (facts.hidden_alias) {
        EXPECT_FALSE(schema->is_view()) << schema->key << " is annotated";
        EXPECT_NE(facts.view, ViewKind::none) << schema->key;
      } else {
        EXPECT_EQ(facts.view != ViewKind::none, schema->is_view()) << schema->key;
      }
    }
  }
}

TEST(OpFacts, EveryAnnotatedViewHasAKind) {
  for (const Schema* schema : all_schemas()) {
    const ViewKind kind = kind_of(*schema);
    const bool has_row = facts_of(*schema).view != ViewKind::none;
    EXPECT_TRUE(!schema->is_view() || kind != ViewKind::none) << schema->key;
    EXPECT_TRUE(!schema->is_mutable() || kind == ViewKind::none) << schema->key;
    EXPECT_TRUE(!schema->is_view() || has_row || kind == ViewKind::other) << schema->key;
  }
}

TEST(OpFacts, DtypesAreOfOperatorsThatCompute) {
  for (const OpFactsRow& row : fact_rows()) {
    EXPECT_TRUE(row.facts.dtype == ResultDtype::unknown || row.facts.view == ViewKind::none)
        << row.name;
  }
}

TEST(OpFacts, RealResultsExist) {
  for (const OpFactsRow& row : fact_rows()) {
    if (row.facts.real_results == 0 || row.facts.real_results == ~0u) continue;
    for (const Schema* schema : schemas_of(row))
      EXPECT_LT(row.facts.real_results, 1u << schema->returns.size()) << schema->key;
  }
}

TEST(OpFacts, FunctionalOperatorsAreRegistered) {
  for (const OpFactsRow& row : fact_rows()) {
    const std::string_view functional = row.facts.functional;
    if (functional.empty()) continue;
    for (const Schema* schema : schemas_of(row)) {
      EXPECT_TRUE(schema->is_mutable() || !schema->overload.empty()) << schema->key;
    }
    if (functional == kNoFunctional) continue;
    EXPECT_FALSE(find_overloads(functional).empty()) << row.name;
    EXPECT_NE(concat(functional, "_"), row.name) << row.name << ": the name says so";
  }
}

TEST(OpFacts, ChecksComputeNothing) {
  EXPECT_TRUE(is_check(*find_schema("aten::_assert_async.msg")));
  EXPECT_TRUE(is_check(*find_schema("aten::_assert_tensor_metadata")));
  EXPECT_TRUE(is_check(*find_schema("aten::sym_constrain_range")));
  EXPECT_TRUE(is_check(*find_schema("aten::_functional_assert_async.msg")));
  EXPECT_FALSE(is_check(*find_schema("aten::add_.Tensor")));
  EXPECT_FALSE(is_check(*find_schema("aten::add.Tensor")));
}

TEST(OpFacts, SchemasSayTheRest) {
  EXPECT_TRUE(changes_geometry(*find_schema("aten::unsqueeze_")));
  EXPECT_FALSE(changes_geometry(*find_schema("aten::unsqueeze")));
  EXPECT_FALSE(changes_geometry(*find_schema("aten::add_.Tensor")));
}

TEST(OpFacts, ReshapesInPlaceKeepTheElements) {
  for (const char* key : {"aten::t_", "aten::transpose_", "aten::swapaxes_", "aten::swapdims_",
                          "aten::unsqueeze_", "aten::squeeze_", "aten::squeeze_.dims"})
    EXPECT_TRUE(reshapes_in_place(*find_schema(key))) << key;
  for (const char* key : {"aten::resize_", "aten::as_strided_", "aten::detach_", "aten::set_",
                          "aten::t", "aten::add_.Tensor"})
    EXPECT_FALSE(reshapes_in_place(*find_schema(key))) << key;
}

TEST(OpFacts, PointwiseOperators) {
  // Tagged, tagged in the functional form only, and by a row.
  for (const char* key :
       {"aten::add.Tensor", "aten::where.self", "aten::masked_fill.Scalar", "aten::addcmul",
        "aten::add_.Tensor", "aten::pow_.Tensor", "aten::gelu_", "aten::masked_fill_.Scalar",
        "aten::masked_fill_.Tensor", "aten::copy", "aten::copy_", "aten::floor_divide_.Tensor"})
    EXPECT_TRUE(is_pointwise(*find_schema(key))) << key;
  for (const char* key :
       {"aten::mm", "aten::where", "aten::index_put_", "aten::t_", "aten::cumsum_"})
    EXPECT_FALSE(is_pointwise(*find_schema(key))) << key;
}

TEST(OpFacts, Items) {
  EXPECT_TRUE(is_item(*find_schema("aten::item")));
  EXPECT_TRUE(is_item(*find_schema("aten::_local_scalar_dense")));
  EXPECT_FALSE(is_item(*find_schema("aten::is_nonzero")));
  EXPECT_FALSE(is_item(*find_schema("aten::sum")));
}

TEST(OpFacts, ReadersOfElements) {
  EXPECT_TRUE(facts_of(*find_schema("aten::where")).reads_elements);
  for (const Schema* schema : find_overloads("aten::where"))
    EXPECT_EQ(facts_of(*schema).reads_elements, schema->arguments.size() == 1) << schema->key;
}

TEST(OpFacts, KindsByShape) {
  for (const char* key : {"aten::view", "aten::_unsafe_view", "aten::reshape", "aten::view_copy"})
    EXPECT_EQ(kind_by_shape(*find_schema(key)), ViewKind::reshape) << key;
  for (const char* key : {"aten::expand", "aten::broadcast_to", "aten::expand_copy"})
    EXPECT_EQ(kind_by_shape(*find_schema(key)), ViewKind::expand) << key;
  for (const char* key : {"aten::view.dtype", "aten::squeeze.dims", "aten::_reshape_alias",
                          "aten::as_strided", "aten::unfold", "aten::new_zeros", "aten::resize_"})
    EXPECT_EQ(kind_by_shape(*find_schema(key)), ViewKind::none) << key;
}

TEST(OpFacts, FixedPieces) {
  for (const char* key :
       {"aten::split_with_sizes", "aten::unsafe_split_with_sizes", "aten::split.sizes",
        "aten::tensor_split.sections", "aten::hsplit.int", "aten::vsplit.array"})
    EXPECT_TRUE(has_fixed_pieces(*find_schema(key))) << key;
  for (const char* key : {"aten::split.Tensor", "aten::unsafe_split.Tensor", "aten::chunk",
                          "aten::unsafe_chunk", "aten::unbind.int"})
    EXPECT_FALSE(has_fixed_pieces(*find_schema(key))) << key;
}

TEST(OpFacts, NetworksOverPackedSequences) {
  for (const char* key : {"aten::lstm", "aten::gru", "aten::rnn_tanh", "aten::rnn_relu"}) {
    EXPECT_TRUE(is_over_packed_sequence(*find_schema(concat(key, ".data")))) << key;
    EXPECT_FALSE(is_over_packed_sequence(*find_schema(concat(key, ".input")))) << key;
  }
  EXPECT_FALSE(is_over_packed_sequence(*find_schema("aten::_pad_packed_sequence")));
  EXPECT_FALSE(is_over_packed_sequence(*find_schema("aten::_cudnn_rnn")));
}

TEST(OpFacts, RowsFitTheirSchemas) {
  const auto gives_numbers = [](const Schema& schema) {
    return std::ranges::none_of(schema.returns, [](const SchemaArgument& result) {
      return result.type.kind == TypeKind::tensor;
    });
  };
  for (const OpFactsRow& row : fact_rows()) {
    for (const Schema* schema : schemas_of(row)) {
      const OpFacts& facts = facts_of(*schema);
      EXPECT_TRUE(!facts.of_dtypes || gives_numbers(*schema)) << schema->key;
      EXPECT_LT(facts.cpu_results, 1u << schema->returns.size()) << schema->key;
      EXPECT_TRUE(facts.saved == Saved::nothing || schema->returns.size() >= 3) << schema->key;
      EXPECT_TRUE(facts.saved != Saved::statistics || schema->index("weight") > 0) << schema->key;
      EXPECT_TRUE(!facts.uninitialized || gives_tensors(*schema)) << schema->key;
      EXPECT_TRUE(facts.quantized == Quantized::unknown || kind_of(*schema) == ViewKind::none)
          << schema->key << ": the view says so";
      if (!facts.fills_randomly || schema->overload.ends_with("out")) continue;
      const auto op = c10::Dispatcher::singleton().findSchema({schema->name, schema->overload});
      EXPECT_TRUE(op->hasTag(at::Tag::nondeterministic_seeded)) << schema->key;
    }
  }
}

TEST(OpFacts, QuantizationOfResults) {
  for (const char* key : {"aten::reshape", "aten::relu_", "aten::max_pool2d", "aten::split.Tensor"})
    EXPECT_EQ(quantized_of(*find_schema(key)), Quantized::kept) << key;
  for (const char* key : {"aten::clamp", "aten::mean.dim"})
    EXPECT_EQ(quantized_of(*find_schema(key)), Quantized::rounded) << key;
  for (const char* key : {"aten::view.dtype", "aten::clamp.Tensor", "aten::add.Tensor"})
    EXPECT_EQ(quantized_of(*find_schema(key)), Quantized::unknown) << key;
}

TEST(OpFacts, Overloads) {
  EXPECT_EQ(kind_of(*find_schema("aten::view")), ViewKind::reshape);
  EXPECT_EQ(kind_of(*find_schema("aten::view.dtype")), ViewKind::other);
  EXPECT_EQ(kind_of(*find_schema("aten::atleast_2d.Sequence")), ViewKind::several);
  EXPECT_EQ(facts_of(*find_schema("aten::fft_fftshift")).strides, Strides::scattered);
  EXPECT_EQ(facts_of(*find_schema("aten::linalg_eigh")).strides, Strides::scattered);
}

TEST(OpFacts, IdempotentOperatorsHaveOneResultLikeSelf) {
  for (const OpFactsRow& row : fact_rows()) {
    if (!row.facts.idempotent) continue;
    EXPECT_NE(row.facts.dtype, ResultDtype::boolean) << row.name;
    for (const Schema* schema : schemas_of(row)) {
      if (schema->is_mutable() || !facts_of(*schema).idempotent || !gives_tensors(*schema))
        continue;
      EXPECT_EQ(schema->returns.size(), 1) << schema->key;
      EXPECT_EQ(schema->arguments[0].type.kind, TypeKind::tensor) << schema->key;
    }
  }
  // Tensor bounds can differ from element to element.
  EXPECT_TRUE(facts_of(*find_schema("aten::clamp")).idempotent);
  EXPECT_FALSE(facts_of(*find_schema("aten::clamp.Tensor")).idempotent);
}

ArgumentRole role(std::string_view key, std::string_view argument) {
  const Schema& schema = *find_schema(key);
  return role_of(schema.arguments.at(static_cast<size_t>(schema.index(argument))));
}

TEST(OpFacts, Roles) {
  EXPECT_EQ(role("aten::gather", "index"), ArgumentRole::place);
  EXPECT_EQ(role("aten::gather", "dim"), ArgumentRole::axis);
  EXPECT_EQ(role("aten::index.Tensor", "indices"), ArgumentRole::place);
  EXPECT_EQ(role("aten::select.int", "index"), ArgumentRole::other);
  EXPECT_EQ(role("aten::movedim.intlist", "source"), ArgumentRole::axis);
  EXPECT_EQ(role("aten::masked_scatter", "source"), ArgumentRole::other);
  EXPECT_EQ(role("aten::copy", "src"), ArgumentRole::element);
  EXPECT_EQ(role("aten::permute", "dims"), ArgumentRole::axes);
  EXPECT_EQ(role("aten::expand", "size"), ArgumentRole::sizes);
  EXPECT_EQ(role("aten::masked_fill.Scalar", "value"), ArgumentRole::element);
  EXPECT_EQ(role("aten::add.Tensor", "alpha"), ArgumentRole::other);
}

TEST(HigherOrder, Operands) {
  const std::vector<Argument> settings{Argument(std::string("cpu")), Argument(), Argument(false)};
  const HigherOrder& wrap = *find_higher_order("higher_order::wrap");
  const HigherOrder& hints = *find_higher_order("higher_order::hints_wrapper");
  const HigherOrder& subgraph = *find_higher_order("higher_order::invoke_subgraph");
  const HigherOrder& autocast = *find_higher_order("higher_order::wrap_with_autocast");
  const Argument::List two{Argument(int64_t{1}), Argument(int64_t{2})};
  EXPECT_EQ(body_inputs(wrap, two).size(), 2);
  EXPECT_EQ(body_inputs(hints, {two}).size(), 2);
  EXPECT_EQ(body_inputs(hints, {}).size(), 0);
  EXPECT_EQ(body_inputs(subgraph, two).size(), 1);
  EXPECT_EQ(autocast_of(wrap, settings), std::nullopt);
  EXPECT_EQ(autocast_of(autocast, settings), false);
  EXPECT_EQ(autocast_of(autocast, {}), true);
  EXPECT_EQ(find_higher_order("higher_order::cond"), nullptr);
}

}  // namespace
}  // namespace onnx_native::aten
