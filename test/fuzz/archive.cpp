#include "fuzz/archive.h"

#include <c10/util/Exception.h>
#include <caffe2/serialize/inline_container.h>
#include <caffe2/serialize/read_adapter_interface.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t most);

namespace onnx_native::fuzz {
namespace {

using caffe2::serialize::PyTorchStreamReader;
using caffe2::serialize::PyTorchStreamWriter;

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

}  // namespace

MemoryFile::MemoryFile(std::span<const uint8_t> content)
    : descriptor_(memfd_create("archive", MFD_CLOEXEC)) {
  if (descriptor_ < 0 ||
      write(descriptor_, content.data(), content.size()) != static_cast<ssize_t>(content.size()))
    std::abort();
}

MemoryFile::~MemoryFile() { close(descriptor_); }

std::vector<Record> unpack(std::span<const uint8_t> bytes) {
  std::vector<Record> records;
  PyTorchStreamReader reader(std::make_shared<Bytes>(bytes));
  for (const std::string& name : reader.getAllRecords()) {
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

void mutate_bytes(std::string& text, size_t most) {
  const size_t size = text.size();
  text.resize(size + most);
  text.resize(LLVMFuzzerMutate(reinterpret_cast<uint8_t*>(text.data()), size, text.size()));
}

size_t mutate_archive(uint8_t* data, size_t size, size_t most, unsigned seed,
                      const ArchiveMutator& mutator) {
  if (seed % 10 != 0) {
    try {
      std::vector<Record> records = unpack({data, size});
      Random random(seed);
      std::vector<Record*> likely;
      for (Record& record : records)
        likely.insert(likely.end(), mutator.chances(record.name), &record);
      if (!likely.empty()) {
        mutator.mutate(*likely[random() % likely.size()], random);
        const std::string packed = pack(records);
        if (packed.size() <= most) {
          std::memcpy(data, packed.data(), packed.size());
          return packed.size();
        }
      }
    } catch (const c10::Error&) {  // not a valid archive
    }
  }
  return LLVMFuzzerMutate(data, size, most);
}

}  // namespace onnx_native::fuzz
