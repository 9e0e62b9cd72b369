// Bytes of a .pt2 file, to a serialized model. The mutator takes archives apart, changes a record,
// mostly the tree of its JSON, and puts them together again with correct checksums.
#include <c10/util/Exception.h>
#include <caffe2/serialize/inline_container.h>
#include <caffe2/serialize/read_adapter_interface.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "fuzz/calls.h"
#include "fuzz/export.h"
#include "readers/pt2/reader.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t most);

namespace onnx_native::fuzz {
namespace {

using caffe2::serialize::PyTorchStreamReader;
using caffe2::serialize::PyTorchStreamWriter;

// A file that is nowhere but in memory.
class MemoryFile {
 public:
  explicit MemoryFile(std::span<const uint8_t> content)
      : descriptor_(memfd_create("pt2", MFD_CLOEXEC)) {
    if (descriptor_ < 0 ||
        write(descriptor_, content.data(), content.size()) != static_cast<ssize_t>(content.size()))
      std::abort();
  }
  ~MemoryFile() { close(descriptor_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  std::string path() const { return "/proc/self/fd/" + std::to_string(descriptor_); }

 private:
  int descriptor_;
};

class Bytes : public caffe2::serialize::ReadAdapterInterface {
 public:
  explicit Bytes(std::span<const uint8_t> bytes) : bytes_(bytes) {}
  size_t size() const override { return bytes_.size(); }
  size_t read(uint64_t position, void* to, size_t count, const char* /*what*/) const override {
    if (position >= bytes_.size()) return 0;
    count = std::min(count, bytes_.size() - static_cast<size_t>(position));
    std::memcpy(to, bytes_.data() + position, count);
    return count;
  }

 private:
  std::span<const uint8_t> bytes_;
};

struct Record {
  std::string name;
  std::string content;
};

std::vector<Record> unpack(std::span<const uint8_t> bytes) {
  std::vector<Record> records;
  PyTorchStreamReader reader(std::make_shared<Bytes>(bytes));
  for (const std::string& name : reader.getAllRecords()) {
    // What the writer adds by itself.
    if (name == "version" || name == "byteorder" || name.starts_with(".data/")) continue;
    const auto [data, size] = reader.getRecord(name);
    records.push_back({name, std::string(static_cast<const char*>(data.get()), size)});
  }
  return records;
}

std::string pack(const std::vector<Record>& records) {
  std::string bytes;
  PyTorchStreamWriter writer([&](const void* data, size_t size) {
    bytes.append(static_cast<const char*>(data), size);
    return size;
  });
  for (const Record& record : records)
    writer.writeRecord(record.name, record.content.data(), record.content.size());
  writer.writeEndOfFile();
  return bytes;
}

// Changes one place of a tree, most often to what stands at another one.
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
      const size_t size = text.size();
      text.resize(size + 16);
      text.resize(LLVMFuzzerMutate(reinterpret_cast<uint8_t*>(text.data()), size, text.size()));
      place = text;
    } else {
      place = number();
    }
  }
  // A leaf becomes another leaf of its type.
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

void mutate_record(Record& record, uint32_t seed) {
  if (seed % 16 != 0 && record.name.ends_with(".json")) {
    Json tree = Json::parse(record.content, nullptr, /*allow_exceptions=*/false);
    if (!tree.is_discarded()) {
      TreeMutator mutator(seed);
      for (uint32_t i = 0; i <= seed / 16 % 4; ++i) mutator.mutate(tree);
      record.content = tree.dump(-1, ' ', false, Json::error_handler_t::replace);
      return;
    }
  }
  const size_t size = record.content.size();
  record.content.resize(size + 64);
  record.content.resize(LLVMFuzzerMutate(reinterpret_cast<uint8_t*>(record.content.data()), size,
                                         record.content.size()));
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
  if (seed % 10 != 0) {
    try {
      std::vector<Record> records = unpack({data, size});
      Random random(seed);
      std::vector<Record*> likely;
      for (Record& record : records) {
        const int chances = record.name.ends_with("model.json") ? 16
                            : record.name.ends_with(".json")    ? 4
                                                                : 1;
        likely.insert(likely.end(), static_cast<size_t>(chances), &record);
      }
      if (!likely.empty()) {
        mutate_record(*likely[random() % likely.size()], random());
        const std::string packed = pack(records);
        if (packed.size() <= most) {
          std::memcpy(data, packed.data(), packed.size());
          return packed.size();
        }
      }
    } catch (const c10::Error&) {  // no archive any more
    }
  }
  return LLVMFuzzerMutate(data, size, most);
}
