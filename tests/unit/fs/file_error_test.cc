#include "engine/fs/file_error.h"

#include <cerrno>

#include "absl/strings/match.h"
#include "gtest/gtest.h"

namespace gyre {
namespace {

TEST(FileErrorTest, SaysWhatWasTriedOnWhatAndWhyNot) {
  EXPECT_EQ(FileError("open", "/data/0.log", ENOENT).message(),
            "open /data/0.log: No such file or directory (ENOENT)");
}

TEST(FileErrorTest, HasACodeToBranchOn) {
  EXPECT_TRUE(absl::IsNotFound(FileError("open", "f", ENOENT)));
  EXPECT_TRUE(absl::IsAlreadyExists(FileError("open", "f", EEXIST)));
  for (const int error : {EACCES, EPERM, EROFS}) {
    EXPECT_TRUE(absl::IsPermissionDenied(FileError("open", "f", error)));
  }
  for (const int error : {ENOSPC, EDQUOT, EMFILE, ENFILE}) {
    EXPECT_TRUE(absl::IsResourceExhausted(FileError("open", "f", error)));
  }
  EXPECT_TRUE(absl::IsInternal(FileError("open", "f", EIO)));
}

TEST(FileErrorTest, SaysWhichLimitDescriptorsHitAndWhereItIsRaised) {
  EXPECT_TRUE(absl::StrContains(FileError("open", "f", EMFILE).message(), "ulimit -n"));
  EXPECT_FALSE(absl::StrContains(FileError("open", "f", ENOSPC).message(), "ulimit"));
}

TEST(FileErrorTest, NumbersWithoutANameAreShown) {
  EXPECT_EQ(FileError("open", "f", 12345).message(), "open f: error 12345");
}

}  // namespace
}  // namespace gyre
