// Files that a save replaces.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "onnx/onnx_onnx_native_pb-ml.pb.h"
#include "writer/file.h"
#include "writer/file_names.h"
#include "writer/replacement.h"
#include "writer/writer.h"

namespace onnx_native::writer {
namespace {

namespace fs = std::filesystem;

class ReplacedFilesTest : public testing::Test {
 protected:
  ReplacedFilesTest() {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    change(0.5);
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

  // Gives the model another weight.
  void change(double value) {
    model_.graph = std::make_unique<onnx::Graph>();
    const std::vector<double> numbers(1024, value);
    onnx::Value* weight =
        model_.graph->add_initializer("w", make_tensor(DType::f32, {1024}, numbers));
    model_.graph->outputs = {weight};
  }
  // The data file that the model refers to.
  fs::path data() const {
    onnx_native_pb::ModelProto model;
    EXPECT_TRUE(model.ParseFromString(read(path_)));
    for (const auto& entry : model.graph().initializer(0).external_data()) {
      if (entry.key() == "location") return folder_ / entry.value();
    }
    return {};
  }
  float first_weight() const {
    const std::string bytes = read(data());
    float value = 0;
    if (bytes.size() == 4096) std::memcpy(&value, bytes.data(), sizeof(value));
    return value;
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

TEST_F(ReplacedFilesTest, AreLinksToAnotherFolderIfThereIsData) {
  fs::create_directories(folder_ / "real");
  const fs::path real = folder_ / "real" / "model.onnx";
  save(model_, real, {.external_data = true});
  const std::string before = read(real);
  fs::create_symlink("real/model.onnx", path_);
  save(model_, path_, {.external_data = true});
  EXPECT_FALSE(fs::is_symlink(path_));
  EXPECT_TRUE(fs::exists(folder_ / "m.onnx.data"));
  EXPECT_EQ(read(real), before);
}

TEST_F(ReplacedFilesTest, HaveDataWhoseNameReadersTake) {
  EXPECT_EQ(FileNames("..onnx").data().find(".."), std::string::npos);
  EXPECT_EQ(FileNames("a..b.onnx").data().find(".."), std::string::npos);
  EXPECT_NE(FileNames("a..b.onnx").data(), FileNames("a._b.onnx").data());
  EXPECT_EQ(FileNames(".onnx").data(), ".onnx.data");
}

TEST_F(ReplacedFilesTest, ShardsHaveNames) {
  const std::string digest(32, 'a');
  for (const std::string& model : {std::string("m.onnx"), std::string(300, 'x')}) {
    const FileNames names(model);
    const std::string plain = names.data({1, 12}), digested = names.data({1, 12}, digest);
    EXPECT_TRUE(plain.ends_with("-00002-of-00012.data"));
    EXPECT_TRUE(names.is_usual_data(plain));
    EXPECT_FALSE(names.is_digested_data(plain));
    EXPECT_FALSE(names.is_usual_data(digested));
    EXPECT_TRUE(names.is_digested_data(digested));
    EXPECT_LE(digested.size(), 255U);
  }
  const FileNames names("m.onnx");
  for (const char* other : {"m.onnx-1-of-2.data", "m.onnx-00001-of-00002.dat", "m.onnx.dat",
                            "m.onnx-00001-of-00002.xyz.data", "n.onnx-00001-of-00002.data"}) {
    EXPECT_FALSE(names.is_usual_data(other)) << other;
    EXPECT_FALSE(names.is_digested_data(other)) << other;
  }
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

TEST_F(ReplacedFilesTest, OtherDataGetsANameOfItsOwn) {
  save(model_, path_, {.external_data = true});
  EXPECT_EQ(data().filename(), "m.onnx.data");
  const std::string model = read(path_);
  ASSERT_EQ(::chmod(data().c_str(), 0640), 0);
  save(model_, path_, {.external_data = true});  // the same bytes
  EXPECT_EQ(data().filename(), "m.onnx.data");
  EXPECT_EQ(read(path_), model);
  std::vector<std::string> names;
  for (const double value : {2.0, 3.0, 2.0}) {
    change(value);
    save(model_, path_, {.external_data = true});
    names.push_back(data().filename());
    EXPECT_TRUE(FileNames(path_).is_digested_data(names.back()));
    EXPECT_EQ(first_weight(), value);
    EXPECT_EQ(status(data()).st_mode & 07777U, 0640U);
    EXPECT_EQ(count(), 2U);
  }
  EXPECT_NE(names[0], names[1]);
  EXPECT_EQ(names[0], names[2]);
  save(model_, path_, {.external_data = false});
  EXPECT_EQ(count(), 1U);
}

TEST_F(ReplacedFilesTest, LinkedDataIsNotWrittenInPlace) {
  save(model_, path_, {.external_data = true});
  const std::string old = read(folder_ / "m.onnx.data");
  fs::create_hard_link(folder_ / "m.onnx.data", folder_ / "other.data");
  save(model_, path_, {.external_data = true});
  EXPECT_EQ(status(data()).st_nlink, 1U);  // readers refuse a data file with two links
  change(2);
  save(model_, path_, {.external_data = true});
  EXPECT_EQ(read(folder_ / "other.data"), old);
  EXPECT_EQ(first_weight(), 2.0F);
  EXPECT_EQ(count(), 3U);
}

TEST_F(ReplacedFilesTest, RemainIfTheModelCannotBeReplaced) {
  for (const bool refers : {false, true}) {
    write(path_, "old model");
    write(folder_ / "m.onnx.data", "old data");
    if (refers) save(model_, path_, {.external_data = true});
    const std::string old = read(path_), old_data = read(folder_ / "m.onnx.data");
    const size_t files = count();
    change(refers ? 2 : 3);
    {
      Progress progress;
      OutputFile model(path_, progress), data(folder_ / "m.onnx.data", progress, Target::data);
      data.write("new data");
      data.close();
      bool is_written = false;
      const auto write_model = [&](const std::vector<std::string>&) {
        model.close();
        fs::remove(model.temporary());  // the rename of the model fails, after that of the data
        is_written = true;
      };
      const NewModel placed{path_, &model};
      const fs::path temporary = data.temporary();
      EXPECT_THROW(put_in_place({&placed, 1}, path_, {&temporary, 1}, write_model), ExportError);
      EXPECT_TRUE(is_written);
      EXPECT_FALSE(fs::exists(data.temporary()));
    }
    EXPECT_EQ(read(path_), old);
    EXPECT_EQ(read(folder_ / "m.onnx.data"), old_data);
    EXPECT_EQ(count(), files);
  }
}

TEST_F(ReplacedFilesTest, LeftoversOfDeadProcessesGo) {
  save(model_, path_, {.external_data = true});
  const pid_t dead = ::fork();
  if (dead == 0) ::_exit(0);
  ::waitpid(dead, nullptr, 0);
  const std::string gone = std::to_string(dead), alive = std::to_string(::getpid());
  fs::create_hard_link(folder_ / "m.onnx.data", folder_ / (".m.onnx.data." + gone + "-4.old"));
  write(folder_ / (".m.onnx." + gone + "-0.tmp"), "");
  write(folder_ / ".m.onnx.0123456789abcdef.tmp", "");
  fs::create_directories(folder_ / ".m.onnx.0123456789abcdee.tmp" / "inner");
  write(folder_ / ".m.onnx.lock", "");
  write(folder_ / ("m.onnx." + std::string(32, 'a') + ".data"), "of a model that never came");
  const std::vector<std::string> kept{".m.onnx." + alive + "-0.tmp", ".n.onnx." + gone + "-0.tmp",
                                      ".m.onnx.0123456789abcded.tmp", ".m.onnx.tmp",
                                      "m.onnx.aaaa.data"};
  for (const std::string& name : kept) write(folder_ / name, "");
  const fs::path locked = folder_ / kept[2];
  const int descriptor = ::open(locked.c_str(), O_RDONLY);
  ASSERT_EQ(::flock(descriptor, LOCK_EX), 0);
  change(2);
  save(model_, path_, {.external_data = true});
  ::close(descriptor);
  for (const std::string& name : kept) EXPECT_TRUE(fs::exists(folder_ / name)) << name;
  EXPECT_EQ(count(), kept.size() + 2);
  EXPECT_EQ(status(data()).st_nlink, 1U);
}

TEST_F(ReplacedFilesTest, RemoveTheOldDataThatAKilledSaveLeft) {
  save(model_, path_, {.external_data = true});
  const fs::path usual = data();
  const std::string old = read(usual);
  change(2);
  save(model_, path_, {.external_data = true});
  ASSERT_NE(data(), usual);
  write(usual, old);  // the save was killed before it removed the file
  change(3);
  save(model_, path_, {.external_data = true});
  EXPECT_FALSE(fs::exists(usual));
  EXPECT_EQ(count(), 2U);
  EXPECT_EQ(first_weight(), 3.0F);
}

TEST_F(ReplacedFilesTest, LeaveADataFileOfTheUsualNameThatNoSaveReplaced) {
  write(path_.string() + ".data", "of a model that was moved");
  save(model_, path_, {});
  save(model_, path_, {});
  EXPECT_EQ(read(path_.string() + ".data"), "of a model that was moved");
}

// Processes that are killed at any time, four at once: the model at the path always has its data.
TEST_F(ReplacedFilesTest, NeverHaveTheDataOfOthers) {
  const auto save_forever = [this](int number) {
    while (true) {
      change(number);
      model_.producer_version = std::to_string(number);
      save(model_, path_, {.external_data = true});
    }
  };
  std::vector<pid_t> processes(4);
  int mixed = 0, whole = 0;
  for (int turn = 0; turn < 60; ++turn) {
    const size_t at = static_cast<size_t>(turn) % processes.size();
    if (processes[at] != 0) {
      ::kill(processes[at], SIGKILL);
      ::waitpid(processes[at], nullptr, 0);
    }
    processes[at] = ::fork();
    if (processes[at] == 0) {
      save_forever(static_cast<int>(at) + 1);
      ::_exit(0);
    }
    for (int i = 0; i < 20; ++i) {
      onnx_native_pb::ModelProto model;
      if (!model.ParseFromString(read(path_)) || model.graph().initializer_size() == 0) continue;
      const std::string bytes =
          read(folder_ / model.graph().initializer(0).external_data(0).value());
      if (bytes.empty()) continue;  // replaced meanwhile
      ++whole;
      float value = 0;
      std::memcpy(&value, bytes.data(), sizeof(value));
      mixed += bytes.size() != 4096 || model.producer_version() != std::to_string(int(value));
    }
  }
  for (const pid_t process : processes) {
    ::kill(process, SIGKILL);
    ::waitpid(process, nullptr, 0);
  }
  EXPECT_EQ(mixed, 0);
  EXPECT_GT(whole, 50);
  EXPECT_EQ(status(data()).st_nlink, 1U);
  EXPECT_GT(first_weight(), 0.0F);
  save(model_, path_, {.external_data = true});
  EXPECT_EQ(count(), 2U);
}

TEST_F(ReplacedFilesTest, HaveLongNamesAndNamesThatAreNoText) {
  for (const std::string& name :
       {std::string(255, 'x'), std::string(241, 'x') + ".onnx", std::string("\xff\xfe.onnx"),
        std::string("x") + std::string(254, '\xc3'), std::string(250, '\xa9')}) {
    const fs::path path = folder_ / name;
    for (const double value : {1.0, 2.0, 2.0}) {
      for (const bool external : {true, false}) {
        change(value);
        save(model_, path, {.external_data = external});
        onnx_native_pb::ModelProto model;
        ASSERT_TRUE(model.ParseFromString(read(path)));  // refuses a location that is not UTF-8
        EXPECT_EQ(count(), external ? 2U : 1U);
      }
    }
    fs::remove(path);
  }
  EXPECT_EQ(printable("a\xff\xc3\xa9"), "a\\xff\xc3\xa9");
}

TEST_F(ReplacedFilesTest, MayBePipesAndOpenFiles) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  save(model_, "/dev/fd/" + std::to_string(ends[1]), {.external_data = true});
  ::close(ends[1]);
  std::string bytes(100000, ' ');
  bytes.resize(static_cast<size_t>(std::max<ssize_t>(0, ::read(ends[0], bytes.data(), 100000))));
  ::close(ends[0]);
  EXPECT_EQ(bytes, serialize(model_));
  write(path_, std::string(100000, 'x'));
  const int descriptor = ::open(path_.c_str(), O_RDWR);
  fs::remove(path_);
  save(model_, "/proc/self/fd/" + std::to_string(descriptor), {.external_data = true});
  EXPECT_EQ(status("/proc/self/fd/" + std::to_string(descriptor)).st_size,
            static_cast<off_t>(serialize(model_).size()));
  ::close(descriptor);
  EXPECT_EQ(count(), 0U);
  save(model_, "/dev/null", {.external_data = true});
  EXPECT_FALSE(fs::exists("/dev/null.data"));
  EXPECT_THROW(save(model_, "/dev/null", {.external_data = true, .places = {{"w", {"f", 0}}}}),
               ExportError);
}

}  // namespace
}  // namespace onnx_native::writer
