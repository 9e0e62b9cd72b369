#include "writer/file_names.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <random>
#include <span>
#include <vector>

#include "base/error.h"

namespace onnx_native::writer {
namespace {

namespace fs = std::filesystem;

constexpr size_t kLongestName = 255;
constexpr size_t kDigits = 32;       // of a digest
constexpr size_t kTokenDigits = 16;  // of a temporary name
constexpr std::string_view kData = ".data";
constexpr size_t kShardDigits = 5;
constexpr std::string_view kOf = "-of-";
constexpr size_t kShardLength = 1 + kShardDigits + kOf.size() + kShardDigits;  // -00001-of-00003

std::string hexadecimal(uint64_t number) {
  static constexpr char kHex[] = "0123456789abcdef";
  std::string text(16, '0');
  for (size_t i = 0; i < 16; ++i) text[15 - i] = kHex[(number >> (4 * i)) & 15];
  return text;
}

bool is_hexadecimal(std::string_view text) {
  return text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

// Returns "-00001-of-00003" for the first of three shards.
std::string shard_text(const Shard& shard) {
  const auto digits = [](size_t number) {
    const std::string text = std::to_string(number);
    return std::string(kShardDigits - std::min(kShardDigits, text.size()), '0') + text;
  };
  return "-" + digits(shard.index + 1) + std::string(kOf) + digits(shard.count);
}

// Returns what follows the shard in a name that starts with these letters; empty if there is none.
std::string_view after_shard(std::string_view name, std::string_view start) {
  if (!name.starts_with(start) || name.size() < start.size() + kShardLength) return {};
  std::string_view rest = name.substr(start.size());
  const auto take = [&rest](std::string_view text) {
    const bool found = rest.starts_with(text);
    if (found) rest.remove_prefix(text.size());
    return found;
  };
  const auto take_number = [&rest] {
    const size_t digits = std::min(rest.find_first_not_of("0123456789"), rest.size());
    rest.remove_prefix(digits);
    return digits == kShardDigits;
  };
  const bool found = take("-") && take_number() && take(kOf) && take_number();
  return found ? rest : std::string_view();
}

// A hash of bytes in pieces. All pieces but the last have a multiple of 8 bytes.
class Hash {
 public:
  void add(std::span<const char> piece) {
    size_ += piece.size();
    for (size_t at = 0; at < piece.size(); at += 8) {
      uint64_t word = 0;
      for (size_t i = 0; i < std::min<size_t>(8, piece.size() - at); ++i)
        word |= uint64_t{static_cast<unsigned char>(piece[at + i])} << (8 * i);
      first_ = mix(first_ ^ word, 0x9e3779b97f4a7c15);
      second_ = mix(second_ + word, 0xd6e8feb86659fd93);
    }
  }
  std::string digits() const {
    const uint64_t first = mix(first_ ^ size_, 0xff51afd7ed558ccd);
    return hexadecimal(first) + hexadecimal(mix(second_ ^ first, 0xc4ceb9fe1a85ec53));
  }

 private:
  // Is invertible for each word, so that texts that differ in one word have different hashes.
  static uint64_t mix(uint64_t value, uint64_t factor) {
    value *= factor;
    return value ^ (value >> 32);
  }

  uint64_t first_ = 0x243f6a8885a308d3;
  uint64_t second_ = 0x13198a2e03707344;
  uint64_t size_ = 0;
};

// Returns the length of the UTF-8 character at the start of a text; 0 if there is none.
size_t character_length(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text[0]);
  const size_t length = lead < 0x80   ? 1
                        : lead < 0xc2 ? 0
                        : lead < 0xe0 ? 2
                        : lead < 0xf0 ? 3
                        : lead < 0xf5 ? 4
                                      : 0;
  if (length == 0 || length > text.size()) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((static_cast<unsigned char>(text[i]) & 0xc0U) != 0x80U) return 0;
  }
  // Overlong forms, surrogates, and what is past the last character.
  const auto second = static_cast<unsigned char>(length > 1 ? text[1] : 0);
  const bool is_valid = !(lead == 0xe0 && second < 0xa0) && !(lead == 0xed && second >= 0xa0) &&
                        !(lead == 0xf0 && second < 0x90) && !(lead == 0xf4 && second >= 0x90);
  return is_valid ? length : 0;
}

// Returns a name itself if it is UTF-8, not too long and without "..", which readers of a model
// refuse in the name of its data file; otherwise one for it alone.
std::string fitting(const std::string& name, size_t limit) {
  constexpr size_t kHashDigits = 16;
  std::string text;
  bool is_valid = true;
  for (std::string_view rest = name; !rest.empty();) {
    const bool is_second_dot = rest[0] == '.' && text.ends_with('.');
    const size_t length = is_second_dot ? 0 : character_length(rest);
    is_valid &= length > 0;
    text += length > 0 ? rest.substr(0, length) : "_";
    rest.remove_prefix(std::max<size_t>(length, 1));
  }
  if (is_valid && text.size() <= limit) return text;
  const auto is_inside_character = [&text](size_t at) {
    return at < text.size() && (static_cast<unsigned char>(text[at]) & 0xc0U) == 0x80U;
  };
  size_t length = std::min(text.size(), limit - kHashDigits - 1);
  while (is_inside_character(length)) --length;
  Hash hash;
  hash.add(name);
  return text.substr(0, length) + "~" + hash.digits().substr(0, kHashDigits);
}

}  // namespace

FileNames::FileNames(const fs::path& model) {
  const std::string name = model.filename().string();
  data_ = fitting(name, kLongestName - kData.size()) + std::string(kData);
  digested_ = fitting(name, kLongestName - kData.size() - kDigits - 1) + ".";
  sharded_ = fitting(name, kLongestName - kData.size() - kDigits - 1 - kShardLength);
  constexpr size_t kHidden = kLongestName - kTokenDigits - 6;  // ".", "." and ".tmp"
  hidden_ = "." + fitting(name, kHidden - kData.size()) + ".";
  hidden_data_ = "." + fitting(name, kHidden - kData.size()) + std::string(kData) + ".";
}

std::string FileNames::data(Shard shard, const std::string& digest) const {
  if (shard.count == 1) return digest.empty() ? data_ : digested_ + digest + std::string(kData);
  std::string name = sharded_ + shard_text(shard);
  if (!digest.empty()) name += "." + digest;
  return name + std::string(kData);
}

bool FileNames::is_usual_data(std::string_view name) const {
  return name == data_ || after_shard(name, sharded_) == kData;
}

bool FileNames::is_digested_data(std::string_view name) const {
  std::string_view digest = after_shard(name, sharded_);
  if (digest.starts_with('.')) {
    digest.remove_prefix(1);
  } else if (name.starts_with(digested_)) {
    digest = name.substr(digested_.size());
  }
  return digest.size() == kDigits + kData.size() && digest.ends_with(kData) &&
         is_hexadecimal(digest.substr(0, kDigits));
}

std::string FileNames::temporary() const {
  std::random_device random;
  return hidden_ + hexadecimal(uint64_t{random()} << 32 | random()) + ".tmp";
}

std::string_view FileNames::middle_of_temporary(std::string_view name) const {
  if (!name.ends_with(".tmp") && !name.ends_with(".old")) return {};
  name.remove_suffix(4);
  for (const std::string& start : {hidden_data_, hidden_}) {
    if (name.starts_with(start)) return name.substr(start.size());
  }
  return {};
}

bool FileNames::is_temporary(std::string_view name) const {
  const std::string_view token = middle_of_temporary(name);
  return token.size() == kTokenDigits && is_hexadecimal(token);
}

int FileNames::process_of_temporary(std::string_view name) const {
  const std::string_view text = middle_of_temporary(name);
  int process = 0, number = 0;
  const auto [dash, error] = std::from_chars(text.begin(), text.end(), process);
  if (error != std::errc() || dash == text.end() || *dash != '-') return 0;
  const auto [end, other] = std::from_chars(dash + 1, text.end(), number);
  return other == std::errc() && end == text.end() && number >= 0 ? std::max(process, 0) : 0;
}

std::string digest_of(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  std::vector<char> piece(size_t{1} << 20);
  Hash hash;
  while (stream) {
    stream.read(piece.data(), static_cast<std::streamsize>(piece.size()));
    hash.add(std::span(piece).first(static_cast<size_t>(stream.gcount())));
  }
  if (!stream.eof())
    fail(ErrorKind::io, "cannot read ", printable(file), ": ", std::strerror(errno));
  return hash.digits();
}

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const size_t length = character_length(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

fs::path folder_of(const fs::path& path) {
  return path.has_parent_path() ? path.parent_path() : fs::path(".");
}

std::string printable(const fs::path& path) {
  const std::string& bytes = path.native();
  std::string text;
  for (std::string_view rest = bytes; !rest.empty();) {
    const size_t length = character_length(rest);
    if (length == 0) {
      text += "\\x" + hexadecimal(static_cast<unsigned char>(rest[0])).substr(14);
    } else {
      text += rest.substr(0, length);
    }
    rest.remove_prefix(std::max<size_t>(length, 1));
  }
  return text;
}

}  // namespace onnx_native::writer
