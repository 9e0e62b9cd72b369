// Files that a save replaces.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "base/error.h"
#include "writer/file.h"
#include "writer/stale_data.h"
#include "writer/writer.h"

namespace onnx_native::writer {
namespace {

namespace fs = std::filesystem;

class ReplacedFilesTest : public testing::Test {
 protected:
  ReplacedFilesTest() {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    const std::vector<double> numbers(1024, 0.5);
    onnx::Value* weight =
        model_.graph->add_initializer("w", make_tensor(DType::f32, {1024}, numbers));
    model_.graph->outputs = {weight};
  }
  ~ReplacedFilesTest() override { fs::remove_all(folder_); }

  static std::string read(const fs::path& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  static void write(const fs::path& path, const std::string& text) { std::ofstream(path) << text; }
  static struct stat status(const fs::path& path) {
    struct stat result {};
    EXPECT_EQ(::stat(path.c_str(), &result), 0);
    return result;
  }
  // The number of files, also hidden ones.
  size_t count() const {
    return static_cast<size_t>(
        std::distance(fs::directory_iterator(folder_), fs::directory_iterator()));
  }

  const fs::path folder_ =
      fs::temp_directory_path() / ("onnx_native_replaced_test." + std::to_string(getpid()));
  const fs::path path_ = folder_ / "m.onnx";
  onnx::Model model_;
};

TEST_F(ReplacedFilesTest, KeepTheirMode) {
  for (const mode_t mode : {0600U, 0640U, 0664U, 0755U}) {
    write(path_, "old");
    ASSERT_EQ(::chmod(path_.c_str(), mode), 0);
    save(model_, path_);
    EXPECT_EQ(status(path_).st_mode & 07777U, mode);
    EXPECT_EQ(read(path_), serialize(model_));
  }
  EXPECT_EQ(count(), 1U);
}

TEST_F(ReplacedFilesTest, KeepTheirHardLinks) {
  for (const std::string& old : {std::string("old"), std::string(100000, 'x')}) {
    write(path_, old);
    fs::remove(folder_ / "other");
    fs::create_hard_link(path_, folder_ / "other");
    const ino_t number = status(path_).st_ino;
    save(model_, path_);
    EXPECT_EQ(status(path_).st_ino, number);
    EXPECT_EQ(status(path_).st_nlink, 2U);
    EXPECT_EQ(read(folder_ / "other"), serialize(model_));
  }
  EXPECT_EQ(count(), 2U);
}

TEST_F(ReplacedFilesTest, AreTheOnesBehindSymbolicLinks) {
  fs::create_directories(folder_ / "real");
  write(folder_ / "real" / "model.onnx", "old");
  fs::create_symlink("real/model.onnx", folder_ / "first");
  fs::create_symlink(folder_ / "first", path_);
  save(model_, path_, {.external_data = false});
  EXPECT_TRUE(fs::is_symlink(path_));
  EXPECT_TRUE(fs::is_symlink(folder_ / "first"));
  EXPECT_EQ(read(folder_ / "real" / "model.onnx"), serialize(model_));
}

TEST_F(ReplacedFilesTest, MayBeMissingBehindALink) {
  fs::create_symlink("later.onnx", path_);
  save(model_, path_);
  EXPECT_TRUE(fs::is_symlink(path_));
  EXPECT_EQ(read(folder_ / "later.onnx"), serialize(model_));
  fs::create_symlink("loop.onnx", folder_ / "loop.onnx");
  EXPECT_THROW(save(model_, folder_ / "loop.onnx"), ExportError);
}

TEST_F(ReplacedFilesTest, DataOfTheLastModelGoes) {
  save(model_, path_, {.external_data = true});
  ASSERT_TRUE(fs::exists(folder_ / "m.onnx.data"));
  save(model_, path_, {.external_data = false});
  EXPECT_FALSE(fs::exists(folder_ / "m.onnx.data"));
  EXPECT_EQ(count(), 1U);
}

TEST_F(ReplacedFilesTest, DataOfOthersStays) {
  write(folder_ / "m.onnx.data", "someone else's");
  save(model_, path_, {.external_data = false});
  EXPECT_EQ(read(folder_ / "m.onnx.data"), "someone else's");
  write(path_, "not a model");
  save(model_, path_, {.external_data = false});
  EXPECT_EQ(read(folder_ / "m.onnx.data"), "someone else's");
}

TEST_F(ReplacedFilesTest, LinkedDataIsWrittenToo) {
  save(model_, path_, {.external_data = true});
  const std::string data = read(folder_ / "m.onnx.data");
  write(folder_ / "m.onnx.data", "old");
  fs::create_hard_link(folder_ / "m.onnx.data", folder_ / "other.data");
  save(model_, path_, {.external_data = true});
  EXPECT_EQ(read(folder_ / "other.data"), data);
  EXPECT_EQ(count(), 3U);
}

TEST_F(ReplacedFilesTest, ComeBackIfALaterOneFails) {
  for (const bool linked : {false, true}) {
    write(folder_ / "a", "old");
    fs::remove(folder_ / "link");
    if (linked) fs::create_hard_link(folder_ / "a", folder_ / "link");
    Progress progress;
    {
      OutputFile first(folder_ / "a", progress), second(folder_ / "b", progress);
      first.write("new");
      first.close();
      second.close();
      fs::create_directories(folder_ / "b" / "in the way");
      OutputFile* const files[] = {&first, &second};
      EXPECT_THROW(rename_together(files), ExportError);
    }
    EXPECT_EQ(read(folder_ / "a"), "old");
    fs::remove_all(folder_ / "b");
    EXPECT_EQ(count(), linked ? 2U : 1U);
  }
}

}  // namespace
}  // namespace onnx_native::writer
