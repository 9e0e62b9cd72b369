// Fuzzes the export of .pt2 files, from their bytes to a serialized model. The mutator unpacks the
// archive, mutates a record, mostly its JSON tree, and repacks the archive with correct checksums.
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "fuzz/archive.h"
#include "fuzz/calls.h"
#include "fuzz/export.h"
#include "readers/pt2/reader.h"

namespace onnx_native::fuzz {
namespace {

// Mutates one place of a JSON tree, or replaces a call of a graph in it.
class TreeMutator {
 public:
  explicit TreeMutator(uint32_t seed) : random_(seed) {}

  void mutate(Json& tree) {
    std::vector<Json*> places;
    collect(tree, places);
    if (random_() % 3 == 0) {
      std::vector<Json*> graphs = places;
      std::erase_if(graphs, [](Json* place) {
        return !place->is_object() || !place->contains("nodes") ||
               !place->contains("tensor_values");
      });
      if (!graphs.empty()) return replace_call(pick(graphs), random_);
    }
    if (random_() % 4 == 0 && change_record(places)) return;
    Json& place = pick(places);
    switch (random_() % 8) {
      case 0:
        place = number();
        break;
      case 1:
        place = Json(pick(places));
        break;
      case 2:
        erase(place);
        break;
      case 3:
        repeat(place);
        break;
      case 4:
        if (!place.is_object() || place.empty()) return mutate_kind(place);
        rename(place, places);
        break;
      case 5:
        for (int i = 0; i < 3; ++i)
          place = random_() % 2 ? Json{{"as_tensor", place}} : Json{place};
        break;
      default:
        exchange(place, places);
    }
  }

 private:
  static void collect(Json& at, std::vector<Json*>& places) {
    places.push_back(&at);
    if (at.is_structured())
      for (Json& inner : at) collect(inner, places);
  }
  Json& pick(const std::vector<Json*>& places) { return *places[random_() % places.size()]; }
  // Changes the recorded type of a tensor or the operator of a call; returns false if there is
  // none.
  bool change_record(const std::vector<Json*>& places) {
    const bool of_call = random_() % 4 == 0;
    std::vector<Json*> records = places;
    std::erase_if(records, [&](Json* place) {
      return !place->is_object() || !place->contains(of_call ? "target" : "sizes");
    });
    if (records.empty()) return false;
    Json& record = pick(records);
    if (of_call) {
      std::string op = operators()[random_() % operators().size()];
      const bool has_overload = op.find('.') != std::string::npos;
      op.replace(op.find("::"), 2, ".");
      record["target"] = "torch.ops." + op + (has_overload ? "" : ".default");
    } else {
      change_type(record);
    }
    return true;
  }
  // Changes the dtype, the rank, or a size or stride, which may be negative or huge.
  void change_type(Json& meta) {
    if (random_() % 4 == 0) {
      meta["dtype"] = random_() % 45;
      return;
    }
    Json& sizes = meta[random_() % 4 == 0 ? "strides" : "sizes"];
    if (!sizes.is_array()) return;
    const auto at = [&](size_t count) {
      return sizes.begin() + static_cast<std::ptrdiff_t>(random_() % count);
    };
    const Json size{{"as_int", number()}};
    switch (random_() % 3) {
      case 0:
        sizes.insert(at(sizes.size() + 1), size);
        break;
      case 1:
        if (!sizes.empty()) sizes.erase(at(sizes.size()));
        break;
      default:
        if (!sizes.empty()) *at(sizes.size()) = size;
    }
  }
  int64_t number() {
    static constexpr int64_t kNumbers[] = {
        0,  1,  -1,        2,         3,         7,       8,         13,
        64, -2, INT32_MAX, INT32_MIN, INT64_MAX, 1 << 20, INT64_MIN, int64_t{1} << 40};
    return kNumbers[random_() % std::size(kNumbers)];
  }
  void erase(Json& place) {
    if (place.is_array() && !place.empty()) {
      place.erase(random_() % place.size());
    } else if (place.is_object() && !place.empty()) {
      place.erase(std::next(place.begin(), static_cast<std::ptrdiff_t>(random_() % place.size())));
    } else {
      place = nullptr;
    }
  }
  void repeat(Json& place) {
    if (!place.is_array() || place.empty()) return mutate_kind(place);
    const Json item = place[random_() % place.size()];
    const size_t count = random_() % 8 ? 1 : 20;
    for (size_t i = 0; i < count; ++i)
      place.insert(place.begin() + static_cast<std::ptrdiff_t>(random_() % (place.size() + 1)),
                   item);
  }
  void rename(Json& place, const std::vector<Json*>& places) {
    const auto at = std::next(place.begin(), static_cast<std::ptrdiff_t>(random_() % place.size()));
    Json value = at.value();
    const Json& other = pick(places);
    const std::string key = other.is_string()                     ? other.get<std::string>()
                            : other.is_object() && !other.empty() ? other.begin().key()
                                                                  : "as_int";
    place.erase(at);
    place[key] = std::move(value);
  }
  void mutate_kind(Json& place) {
    if (place.is_boolean()) {
      place = !place.get<bool>();
    } else if (place.is_string()) {
      std::string text = place.get<std::string>();
      mutate_bytes(text, 16);
      place = text;
    } else {
      place = number();
    }
  }
  // Replaces a place with a different value of the same JSON type from elsewhere in the tree.
  void exchange(Json& place, const std::vector<Json*>& places) {
    for (int i = 0; i < 20; ++i) {
      const Json& other = pick(places);
      if (other.type() != place.type() || other == place) continue;
      place = Json(other);
      return;
    }
    mutate_kind(place);
  }

  Random random_;
};

void mutate_record(Record& record, Random& random) {
  if (random() % 16 != 0 && record.name.ends_with(".json")) {
    Json tree = Json::parse(record.content, nullptr, /*allow_exceptions=*/false);
    if (!tree.is_discarded()) {
      TreeMutator mutator(random());
      for (uint32_t i = 0; i <= random() % 4; ++i) mutator.mutate(tree);
      record.content = tree.dump(-1, ' ', false, Json::error_handler_t::replace);
      return;
    }
  }
  mutate_bytes(record.content, 64);
}

size_t chances(std::string_view name) {
  if (name.ends_with("model.json")) return 16;
  return name.ends_with(".json") ? 4 : 1;
}

}  // namespace
}  // namespace onnx_native::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const onnx_native::fuzz::MemoryFile file({data, size});
  onnx_native::fuzz::export_all([&] { return onnx_native::readers::pt2::read(file.path()); });
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t most, unsigned seed) {
  using namespace onnx_native::fuzz;  // NOLINT(google-build-using-namespace)
  return mutate_archive(data, size, most, seed, {.chances = chances, .mutate = mutate_record});
}
