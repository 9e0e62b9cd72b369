// The names of the files that belong to a model.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace onnx_native::writer {

// The names of the files that saves put beside the model at one path. All are at most 255 bytes
// long; data files, which the model refers to, are UTF-8. The middle of a name that is too long is
// replaced by a hash.
class FileNames {
 public:
  explicit FileNames(const std::filesystem::path& model);

  // "<model>.data", the usual name.
  std::string data() const { return data_; }
  // "<model>.<digest>.data", for data that must not replace others.
  std::string data(const std::string& digest) const;
  // Returns true for a name that data(digest) returns for some digest.
  bool is_data(std::string_view name) const;
  // The file that a save locks while it replaces the model.
  std::string lock() const { return hidden_ + "lock"; }
  // Returns a hidden name that no other file has: ".<model>.<16 hexadecimal digits>.tmp".
  std::string temporary() const;
  // Returns true for a name that temporary() returns, for the model or its data file.
  bool is_temporary(std::string_view name) const;
  // Returns the process for a name that earlier versions gave to a temporary file; 0 for others.
  int process_of_temporary(std::string_view name) const;

 private:
  std::string_view middle_of_temporary(std::string_view name) const;

  std::string data_;
  std::string digested_;     // what names with a digest start with
  std::string hidden_;       // what hidden names start with
  std::string hidden_data_;  // the same for the data file
};

// Returns 32 hexadecimal digits that depend on the contents of a file. Throws ExportError(io).
std::string digest_of(const std::filesystem::path& file);
// Returns true for text that is UTF-8, as ONNX wants names to be.
bool is_utf8(std::string_view text);
// Returns the folder of a file, `.` if the path names none.
std::filesystem::path folder_of(const std::filesystem::path& path);
// Returns a path for messages, in UTF-8.
std::string printable(const std::filesystem::path& path);

}  // namespace onnx_native::writer
