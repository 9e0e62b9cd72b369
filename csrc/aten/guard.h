// Guards of a captured program: conditions on sizes that the capture has decided by the example.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace onnx_native::aten {

// The sizes that the text of a guard pins, as it writes them: empty where it leaves them open. A
// guard pins its sizes when it is an equation that only few sizes satisfy, as `math.trunc(0.5*s0)
// == 2`; a relation of sizes (`s0 == s1 + 1`) or a divisibility (`s0 % 2 == 0`) pins none.
// Understands what torch.export prints: Python expressions ("(L['x'].size()[0] // 2) == 2") and
// SymPy's
// ("Eq((s0//2), 2)").
std::vector<std::string> pinned_sizes(std::string_view text);

// The guard in the message of an assertion that torch.export added; empty in other messages.
std::string asserted_guard(std::string_view message);

// The error's text for a guard that pins sizes of the program.
std::string describe_pin(std::string_view guard, std::string_view size);

}  // namespace onnx_native::aten
