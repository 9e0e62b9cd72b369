#include "capture/generators.h"

#include <ATen/CPUGeneratorImpl.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <algorithm>
#include <mutex>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "capture/recording.h"

namespace onnx_native::capture {
namespace {

constexpr uint64_t kMark = 0x6f6e6e786e617476;

thread_local Generators* watching = nullptr;

at::CPUGeneratorImpl& impl_of(const at::Generator& generator) {
  return *generator.get<at::CPUGeneratorImpl>();
}

// Changes the seed that a generator reports, and not its numbers. The caller holds the mutex.
void set_seed(at::CPUGeneratorImpl& generator, uint64_t seed) {
  at::mt19937 engine = generator.engine();
  at::mt19937_data_pod data = engine.data();
  data.seed_ = seed;
  engine.set_data(data);
  generator.set_engine(engine);
}

// Returns true if an argument says that the call draws nothing: train=False, dropout_p=0.
bool is_off(const std::string& op, const std::string& name, const c10::IValue& value) {
  if (name == "train" || name == "training") return value.isBool() && !value.toBool();
  const bool is_rate = name == "dropout_p" || name == "dropout" ||
                       (name == "p" && op.find("dropout") != std::string::npos);
  return is_rate && value.isDouble() && value.toDouble() == 0;
}

}  // namespace

bool draws(const c10::OperatorHandle& op, const std::vector<c10::IValue>& arguments) {
  if (!op.hasTag(at::Tag::nondeterministic_seeded)) return false;
  const std::vector<c10::Argument>& declared = op.schema().arguments();
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (is_off(op.schema().name(), declared[i].name(), arguments[i])) return false;
  }
  return true;
}

at::Generator generator_of(const std::vector<c10::IValue>& arguments) {
  for (const c10::IValue& argument : arguments) {
    if (argument.isGenerator() && argument.toGenerator().defined()) return argument.toGenerator();
  }
  return at::detail::getDefaultCPUGenerator();
}

Generators::Generators(std::vector<at::Generator> known) {
  known.push_back(at::detail::getDefaultCPUGenerator());
  for (at::Generator& generator : known) {
    const auto is_same = [&](const Known& other) { return other.generator == generator; };
    if (generator.device().is_cpu() && std::ranges::none_of(known_, is_same))
      known_.push_back({.generator = std::move(generator), .state = {}, .seed = 0});
  }
}

Generators::~Generators() {
  unwatch();
  stop();
}

void Generators::start() {
  if (std::exchange(is_started_, true)) return;
  for (Known& known : known_) {
    const std::scoped_lock lock(known.generator.mutex());
    known.state = known.generator.get_state();
    known.seed = known.generator.current_seed();
    set_seed(impl_of(known.generator), kMark);
  }
}

void Generators::stop() {
  if (!std::exchange(is_started_, false)) return;
  for (Known& known : known_) {
    const std::scoped_lock lock(known.generator.mutex());
    if (known.generator.current_seed() == kMark) {
      set_seed(impl_of(known.generator), known.seed);  // other threads may have drawn numbers
    } else {
      known.generator.set_state(known.state);
    }
  }
  for (Known& found : found_) {
    const std::scoped_lock lock(found.generator.mutex());
    found.generator.set_state(found.state);
  }
}

std::vector<at::Generator> Generators::found() const {
  std::vector<at::Generator> result;
  for (const Known& found : found_) result.push_back(found.generator);
  return result;
}

void Generators::restart() {
  if (!is_started_) return;
  stop();
  start();
}

bool Generators::is_seeded(at::Generator generator) {
  if (ignores_seeds_) return false;
  const auto is_same = [&](const Known& other) { return other.generator == generator; };
  const std::scoped_lock lock(generator.mutex());
  if (std::ranges::none_of(known_, is_same) && std::ranges::none_of(found_, is_same))
    found_.push_back({.generator = generator, .state = generator.get_state(), .seed = 0});
  return generator.current_seed() != kMark;
}

void Generators::watch(std::function<std::string()> line) {
  line_ = std::move(line);
  register_recorder();
  watching = this;
  c10::impl::tls_set_dispatch_key_included(kRecorderKey, true);
}

void Generators::unwatch() {
  if (watching != this) return;
  c10::impl::tls_set_dispatch_key_included(kRecorderKey, false);
  watching = nullptr;
}

void Generators::note(const c10::OperatorHandle& op, const torch::jit::Stack& stack) {
  if (!watching || !watching->seeded_draw_.empty()) return;
  const auto count = static_cast<int64_t>(op.schema().arguments().size());
  const std::vector<c10::IValue> arguments(stack.end() - count, stack.end());
  if (!draws(op, arguments) || !watching->is_seeded(generator_of(arguments))) return;
  watching->seeded_draw_ = concat(op.operator_name().name, " at ", watching->line_());
}

}  // namespace onnx_native::capture
