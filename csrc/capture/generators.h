// The random number generators of a program, and the numbers that it draws after it seeds them.
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace onnx_native::capture {

// Returns true if a call draws random numbers; dropout does not in evaluation.
bool draws(const c10::OperatorHandle& op, const std::vector<c10::IValue>& arguments);
// Returns the default generators of all devices of a type, as far as it has any.
std::vector<at::Generator> default_generators(c10::DeviceType type);
// Returns the generator of a call; the default one of the device where it draws if none is given.
at::Generator generator_of(const std::vector<c10::IValue>& arguments, c10::Device device);

// Knows which generators a program seeds while it runs. PyTorch does not report that. So each
// generator that exists before the run has a mark in place of its seed during the run. A seed or a
// state that the program sets has no mark; a state that it saved and restores has one. A mark does
// not change the numbers that a generator draws, here or in other threads; but that of a device
// does, until stop() gives it its state back. The CPU's default generator is always marked. A
// generator that the program makes has no mark and a fixed seed.
class Generators {
 public:
  // `known` are generators of the program on the CPU, `of_devices` default ones of other devices.
  explicit Generators(const std::vector<at::Generator>& known = {},
                      const std::vector<at::Generator>& of_devices = {});
  ~Generators();
  Generators(const Generators&) = delete;
  Generators& operator=(const Generators&) = delete;

  // Marks the generators.
  void start();
  // Removes the marks. Generators that the program seeded get their states back.
  void stop();
  // Gives the generators the states at the start of the program, for another run of it.
  void restart();

  // Returns true if the next numbers are the same in every run of the program.
  bool is_seeded(at::Generator generator);
  // Treats no generator as seeded from now on: what the program seeds differs from run to run.
  void ignore_seeds() { ignores_seeds_ = true; }
  // Returns the generators that drew numbers and are neither known nor the default one. The program
  // made them, or keeps them where the caller did not look. restart() gives them the states that
  // they had at their first draw.
  std::vector<at::Generator> found() const;
  // Returns the random numbers that became constants, in the order of the calls.
  const std::vector<at::Tensor>& drawn() const { return drawn_; }
  void add_drawn(const at::Tensor& numbers) { drawn_.push_back(numbers); }

  // Notes draws of this thread from seeded generators, until unwatch(). `line` returns the source
  // line of a draw.
  void watch(std::function<std::string()> line);
  void unwatch();
  // Returns the first draw since watch(): "aten::randn at model.py:3"; empty if there is none.
  const std::string& seeded_draw() const { return seeded_draw_; }
  // Notes a call for watch(), if this thread watches.
  static void note(const c10::OperatorHandle& op, const torch::jit::Stack& stack);

 private:
  struct Known {
    at::Generator generator;
    at::Tensor state = {};
    uint64_t seed = 0;
    uint64_t mark = 0;
  };

  Known* find(const at::Generator& generator);

  std::vector<Known> known_;
  std::vector<Known> found_;
  std::vector<at::Tensor> drawn_;
  std::function<std::string()> line_;
  std::string seeded_draw_;
  bool is_started_ = false;
  bool ignores_seeds_ = false;
};

}  // namespace onnx_native::capture
