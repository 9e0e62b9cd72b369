#include "capture/generators.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
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

// Returns the device where a call draws.
c10::Device device_of(const std::vector<c10::IValue>& arguments) {
  for (const c10::IValue& argument : arguments) {
    if (argument.isDevice()) return argument.toDevice();
    if (argument.isTensor() && argument.toTensor().defined()) return argument.toTensor().device();
  }
  return c10::kCPU;
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

std::vector<at::Generator> default_generators(c10::DeviceType type) {
  std::vector<at::Generator> found;
  try {
    const at::AcceleratorHooksInterface& hooks =
        at::globalContext().getAcceleratorHooksInterface(type);
    for (c10::DeviceIndex i = 0; i < hooks.deviceCount(); ++i)
      found.push_back(hooks.getDefaultGenerator(i));
  } catch (const c10::Error&) {
    return {};
  }
  return found;
}

at::Generator generator_of(const std::vector<c10::IValue>& arguments, c10::Device device) {
  for (const c10::IValue& argument : arguments) {
    if (argument.isGenerator() && argument.toGenerator().defined()) return argument.toGenerator();
  }
  if (device.is_cpu() || device.is_meta()) return at::detail::getDefaultCPUGenerator();
  try {
    return at::globalContext().defaultGenerator(device);
  } catch (const c10::Error&) {  // the device has none
    return at::detail::getDefaultCPUGenerator();
  }
}

Generators::Generators(const std::vector<at::Generator>& known,
                       const std::vector<at::Generator>& of_devices) {
  const auto add = [this](const at::Generator& generator) {
    if (!find(generator)) known_.push_back({.generator = generator});
  };
  for (const at::Generator& generator : known) {
    if (generator.device().is_cpu()) add(generator);
  }
  add(at::detail::getDefaultCPUGenerator());
  std::ranges::for_each(of_devices, add);
}

Generators::~Generators() {
  unwatch();
  stop();
}

Generators::Known* Generators::find(const at::Generator& generator) {
  const auto found = std::ranges::find(known_, generator, &Known::generator);
  return found == known_.end() ? nullptr : &*found;
}

void Generators::start() {
  if (std::exchange(is_started_, true)) return;
  for (Known& known : known_) {
    const std::scoped_lock lock(known.generator.mutex());
    known.state = known.generator.get_state();
    known.seed = known.generator.current_seed();
    if (known.generator.device().is_cpu()) {
      set_seed(impl_of(known.generator), kMark);
    } else {
      known.generator.set_current_seed(kMark);
    }
    known.mark = known.generator.current_seed();  // some devices keep a part of it
  }
}

void Generators::stop() {
  if (!std::exchange(is_started_, false)) return;
  for (Known& known : known_) {
    const std::scoped_lock lock(known.generator.mutex());
    if (known.generator.device().is_cpu() && known.generator.current_seed() == known.mark) {
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
  const std::scoped_lock lock(generator.mutex());
  const Known* known = find(generator);
  if (known) return generator.current_seed() != known->mark;
  if (std::ranges::find(found_, generator, &Known::generator) == found_.end())
    found_.push_back({.generator = generator, .state = generator.get_state()});
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
  if (!draws(op, arguments)) return;
  if (!watching->is_seeded(generator_of(arguments, device_of(arguments)))) return;
  watching->seeded_draw_ = concat(op.operator_name().name, " at ", watching->line_());
}

}  // namespace onnx_native::capture
