// Guards of a captured program: conditions on sizes that the capture decided by the example.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace onnx_native::aten {

// Returns the sizes that a guard pins, as it spells them; empty if it pins none. A guard pins its
// sizes if it is an equation that only few sizes satisfy, such as `math.trunc(0.5*s0) == 2`. A
// relation between sizes (`s0 == s1 + 1`) or a divisibility (`s0 % 2 == 0`) pins none. Understands
// the formats of torch.export: Python expressions ("(L['x'].size()[0] // 2) == 2") and SymPy's
// ("Eq((s0//2), 2)").
std::vector<std::string> pinned_sizes(std::string_view text);

// Returns the guard in the message of an assertion that torch.export added; empty for other
// messages.
std::string asserted_guard(std::string_view message);

// Returns the error text for a guard that pins a size of the program.
std::string describe_pin(std::string_view guard, std::string_view size);

}  // namespace onnx_native::aten
