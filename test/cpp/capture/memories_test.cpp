#include "capture/memories.h"

#include <ATen/Functions.h>
#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include "capture/module_tensors.h"
#include "capture/recorded_tensor.h"

namespace onnx_native::capture {
namespace {

using Owner = Memories::Owner;

at::Tensor meta() {
  return at::empty({2, 3}, at::TensorOptions().dtype(c10::kFloat).device(c10::kMeta));
}

struct MemoriesTest : testing::Test {
  Decisions decisions{{}, [] { return std::string("model.py:7"); }};
  Memories memories{decisions};
  at::Tensor weight = at::zeros({2, 3});
  at::Tensor stand_in = meta();

  void expect_refused(const std::string& reason) {
    EXPECT_EQ(decisions.reason(), "the program " + reason + " (model.py:7)");
  }
};

TEST_F(MemoriesTest, AComputedTensorCanBeWritten) {
  memories.note_write(stand_in);
  EXPECT_TRUE(memories.is_written(stand_in.t()));
  EXPECT_FALSE(memories.is_written(meta()));
  EXPECT_FALSE(memories.writes_state());
}

TEST_F(MemoriesTest, AWriteToTheModuleIsAWriteToItsElements) {
  memories.add(stand_in, Owner::module, storage_of(weight));
  memories.add_view(weight);
  memories.note_write(stand_in);
  EXPECT_TRUE(memories.are_elements_written(weight));
  EXPECT_TRUE(memories.writes_state());
}

TEST_F(MemoriesTest, ATensorOfUnknownOriginMustNotBeWritten) {
  memories.add(stand_in, Owner::unknown, storage_of(weight));
  EXPECT_THROW(memories.note_write(stand_in), c10::Error);
  expect_refused("writes to a tensor that is neither an input nor a buffer");
}

TEST_F(MemoriesTest, MemoryThatDifferentViewsShareMustNotBeWritten) {
  memories.add(stand_in, Owner::module, storage_of(weight));
  memories.add_view(weight);
  memories.add_view(weight.alias());
  memories.note_write(stand_in);
  EXPECT_THROW(memories.add_view(weight.t()), c10::Error);
  expect_refused("writes to tensors that may share memory");
  EXPECT_THROW(memories.note_write(stand_in), c10::Error);
}

TEST_F(MemoriesTest, MemoryOfAnArrayMustNotBeWritten) {
  memories.add(stand_in, Owner::module, storage_of(weight));
  memories.share_with_array(weight);
  EXPECT_THROW(memories.note_write(stand_in), c10::Error);
  expect_refused("writes to a tensor that shares memory with an array");
}

TEST_F(MemoriesTest, ElementsThatTheModelHasAsAnInputAreReadOrWritten) {
  memories.keep(weight);
  EXPECT_TRUE(memories.note_read(weight));
  EXPECT_FALSE(memories.note_read(weight));
  EXPECT_THROW(memories.note_assignment(weight), c10::Error);
  expect_refused("decides by the elements of a tensor that is an input");
}

TEST(ModuleTensors, AnotherObjectForTheSameElementsIsTheModulesTensor) {
  const at::Tensor weight = at::zeros({2, 3});
  const ModuleTensors module(
      {{.name = "weight", .tensor = weight, .kind = aten::ConstantKind::parameter},
       {.name = "rows", .tensor = weight.narrow(0, 0, 1), .kind = aten::ConstantKind::buffer}});
  EXPECT_EQ(module.find(weight)->name, "weight");
  EXPECT_EQ(module.find(weight.alias())->name, "weight");
  EXPECT_EQ(module.find(weight.narrow(0, 0, 1))->name, "rows");
  EXPECT_EQ(module.find(weight.narrow(0, 1, 1)), nullptr);
  EXPECT_EQ(module.find(at::zeros({2, 3})), nullptr);
  EXPECT_EQ(module.original_of(weight), nullptr);
  EXPECT_TRUE(module.original_of(weight.alias())->is_same(weight));
  EXPECT_FALSE(module.contains(weight.alias()));
  EXPECT_TRUE(module.shares_memory(weight));
}

}  // namespace
}  // namespace onnx_native::capture
