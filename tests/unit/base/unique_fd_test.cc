#include "engine/base/unique_fd.h"

#include <fcntl.h>

#include "gtest/gtest.h"

namespace gyre {
namespace {

bool IsOpen(int fd) { return fcntl(fd, F_GETFD) != -1; }

int Open() { return open("/dev/null", O_RDONLY | O_CLOEXEC); }

TEST(UniqueFdTest, ClosesWhenItDies) {
  int fd;
  {
    UniqueFd owner(Open());
    ASSERT_TRUE(owner.valid());
    fd = owner.get();
    EXPECT_TRUE(IsOpen(fd));
  }
  EXPECT_FALSE(IsOpen(fd));
}

TEST(UniqueFdTest, MovingHandsTheDescriptorOver) {
  UniqueFd first(Open());
  const int fd = first.get();
  UniqueFd second(std::move(first));
  EXPECT_EQ(second.get(), fd);
  UniqueFd third(Open());
  const int replaced = third.get();
  third = std::move(second);
  EXPECT_EQ(third.get(), fd);
  EXPECT_TRUE(IsOpen(fd));
  EXPECT_FALSE(IsOpen(replaced));
}

TEST(UniqueFdTest, ReleaseGivesItAwayOpen) {
  UniqueFd owner(Open());
  const int fd = owner.Release();
  EXPECT_FALSE(owner.valid());
  owner.Reset();
  EXPECT_TRUE(IsOpen(fd));
  close(fd);
}

}  // namespace
}  // namespace gyre
