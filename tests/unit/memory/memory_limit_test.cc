#include "engine/memory/memory_limit.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "gtest/gtest.h"

namespace gyre {
namespace {

class MemoryLimitTest : public ::testing::Test {
 protected:
  MemoryLimitTest() {
    const char* directory = std::getenv("TEST_TMPDIR");
    root_ = std::string(directory != nullptr ? directory : "/tmp") + "/memory_limit_XXXXXX";
    if (mkdtemp(root_.data()) == nullptr) ADD_FAILURE() << root_;
  }
  ~MemoryLimitTest() override { std::filesystem::remove_all(root_); }
  void Write(const std::string& path, const std::string& text) {
    const std::filesystem::path full = root_ + path;
    std::filesystem::create_directories(full.parent_path());
    std::ofstream(full) << text;
  }
  std::string root_;
};

TEST_F(MemoryLimitTest, WithoutACgroupItIsHalfOfTheMachine) {
  Write("/proc/meminfo", "MemFree: 1 kB\nMemTotal:       8000 kB\n");
  EXPECT_EQ(DefaultMemoryLimit(root_).bytes, 4000 * 1024);
}

TEST_F(MemoryLimitTest, ACgroupsLimitAndItsParentsCount) {
  Write("/proc/meminfo", "MemTotal:       8000 kB\n");
  Write("/proc/self/cgroup", "0::/a/b\n");
  Write("/sys/fs/cgroup/a/b/memory.max", "max\n");
  Write("/sys/fs/cgroup/a/memory.max", "2000000\n");
  const MemoryLimit limit = DefaultMemoryLimit(root_);
  EXPECT_EQ(limit.bytes, 1'000'000);
  EXPECT_EQ(limit.source, "half of the cgroup's 2000000");
}

TEST_F(MemoryLimitTest, InAContainerTheLimitIsAtTheMount) {
  Write("/proc/meminfo", "MemTotal:       8000 kB\n");
  Write("/proc/self/cgroup", "0::/docker/not/here\n");
  Write("/sys/fs/cgroup/memory.max", "3000000\n");
  EXPECT_EQ(DefaultMemoryLimit(root_).bytes, 1'500'000);
}

TEST_F(MemoryLimitTest, VersionOneCountsToo) {
  Write("/proc/meminfo", "MemTotal:       8000 kB\n");
  Write("/proc/self/cgroup", "5:cpu:/x\n4:hugetlb,memory:/x\n0::/\n");
  Write("/sys/fs/cgroup/memory/x/memory.limit_in_bytes", "1000000\n");
  Write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(DefaultMemoryLimit(root_).bytes, 500'000);
}

TEST_F(MemoryLimitTest, ThisMachineHasOne) { EXPECT_GT(DefaultMemoryLimit().bytes, 1 << 24); }

}  // namespace
}  // namespace gyre
