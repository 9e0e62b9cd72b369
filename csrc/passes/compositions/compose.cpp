#include "passes/compositions/compose.h"

#include <algorithm>

#include "passes/passes.h"
#include "passes/rewrite.h"

namespace onnx_native::passes {

void compose(onnx::Model& model, const std::function<Composer(const onnx::Node&)>& choose) {
  for (bool changed = true; changed;) {
    changed = false;
    Builder b(model);  // a new one, because it reuses constants and some are removed below
    sweep(model, [&](Rewrite& rewrite, onnx::Graph& graph, onnx::Node& node) {
      const Composer composer = choose(node);
      if (!composer || std::ranges::none_of(node.outputs, [](Value v) { return v != nullptr; }))
        return;
      b.set_location(node.location);
      Values results;
      const auto body = b.subgraph("", [&] {
        results = composer(b, node);
        return Values();
      });
      if (results.empty()) return;
      changed = true;
      graph.take_over(*body, node.position);
      for (size_t i = 0; i < node.outputs.size(); ++i) {
        if (node.outputs[i]) rewrite.replace_all(node, node.outputs[i], results[i]);
      }
    });
    if (changed) eliminate_dead_code(model);
  }
}

}  // namespace onnx_native::passes
