#include "engine/uring/setup_error.h"

#include <cerrno>
#include <string>

#include "absl/strings/match.h"
#include "gtest/gtest.h"

namespace gyre::uring {
namespace {

struct Case {
  const char* name;
  int error;
  int io_uring_disabled;
  absl::StatusCode code;
  const char* says;
};

class SetupErrorTest : public ::testing::TestWithParam<Case> {};

SetupEnvironment EnvironmentOf(const Case& c) {
  SetupEnvironment environment;
  environment.kernel_release = "5.10.0-test";
  environment.io_uring_disabled = c.io_uring_disabled;
  environment.memlock_limit_bytes = 65536;
  environment.open_files_limit = 1024;
  return environment;
}

TEST_P(SetupErrorTest, SaysWhatToDoInOneLine) {
  const absl::Status status = SetupError(GetParam().error, EnvironmentOf(GetParam()));
  EXPECT_EQ(status.code(), GetParam().code);
  EXPECT_TRUE(absl::StrContains(status.message(), GetParam().says)) << status;
  EXPECT_FALSE(absl::StrContains(status.message(), "\n"));
}

INSTANTIATE_TEST_SUITE_P(
    Errors, SetupErrorTest,
    ::testing::Values(
        Case{"NoSuchCall", ENOSYS, -1, absl::StatusCode::kUnimplemented, "5.10.0-test"},
        Case{"TooOld", EINVAL, -1, absl::StatusCode::kUnimplemented, "Linux 5.19 or newer"},
        Case{"SwitchedOff", EPERM, 2, absl::StatusCode::kPermissionDenied,
             "kernel.io_uring_disabled = 2"},
        Case{"GroupOnly", EPERM, 1, absl::StatusCode::kPermissionDenied, "kernel.io_uring_group"},
        Case{"Seccomp", EPERM, 0, absl::StatusCode::kPermissionDenied, "seccomp"},
        Case{"SeccompWithoutSysctl", EACCES, -1, absl::StatusCode::kPermissionDenied, "seccomp"},
        Case{"ProcessDescriptors", EMFILE, 0, absl::StatusCode::kResourceExhausted, "now 1024"},
        Case{"HostDescriptors", ENFILE, 0, absl::StatusCode::kResourceExhausted, "fs.file-max"},
        Case{"Memory", ENOMEM, 0, absl::StatusCode::kResourceExhausted, "65536 bytes"},
        Case{"SomethingElse", EIO, 0, absl::StatusCode::kInternal, "Input/output error"}),
    [](const ::testing::TestParamInfo<Case>& info) { return info.param.name; });

TEST(RegisterBuffersErrorTest, NamesTheLimitAndTheNeed) {
  SetupEnvironment environment;
  environment.memlock_limit_bytes = 8 << 20;
  const absl::Status status = RegisterBuffersError(ENOMEM, 64 << 20, environment);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(absl::StrContains(status.message(), "67108864 bytes exceed")) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), "8388608")) << status;
}

TEST(RegisterBuffersErrorTest, OtherErrorsKeepTheirReason) {
  EXPECT_TRUE(absl::StrContains(RegisterBuffersError(EFAULT, 1, {}).message(), "Bad address"));
}

TEST(SetupEnvironmentTest, KnowsTheKernel) {
  EXPECT_FALSE(ReadSetupEnvironment().kernel_release.empty());
}

}  // namespace
}  // namespace gyre::uring
