#include "engine/uring/features.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <string>

#include "absl/strings/match.h"
#include "gtest/gtest.h"

namespace gyre::uring {
namespace {

TEST(FeaturesTest, AnEmptyListHidesNothing) {
  EXPECT_TRUE(ParseDisabled("")->empty());
  EXPECT_TRUE(ParseDisabled(" , ")->empty());
}

TEST(FeaturesTest, ParsesNamesWithBlanks) {
  const absl::StatusOr<FeatureSet> hidden = ParseDisabled("send_zc, defer_taskrun");
  ASSERT_TRUE(hidden.ok());
  EXPECT_TRUE(hidden->Has(Feature::kSendZeroCopy));
  EXPECT_TRUE(hidden->Has(Feature::kDeferTaskrun));
  EXPECT_FALSE(hidden->Has(Feature::kMultishotRecv));
}

TEST(FeaturesTest, AllHidesEveryOptionalFeature) {
  EXPECT_EQ(*ParseDisabled("all"), FeatureSet::All());
}

TEST(FeaturesTest, EveryNameParsesToItsFeature) {
  for (int i = 0; i < kFeatureCount; ++i) {
    const auto feature = static_cast<Feature>(i);
    const absl::StatusOr<FeatureSet> hidden = ParseDisabled(FeatureName(feature));
    ASSERT_TRUE(hidden.ok()) << FeatureName(feature);
    FeatureSet expected;
    expected.Add(feature);
    EXPECT_EQ(*hidden, expected) << FeatureName(feature);
  }
}

TEST(FeaturesTest, AnUnknownNameIsAnErrorThatListsTheValidOnes) {
  const absl::Status status = ParseDisabled("send_zc,multishot_accept").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(absl::StrContains(status.message(), "\"multishot_accept\""));
  for (int i = 0; i < kFeatureCount; ++i) {
    EXPECT_TRUE(absl::StrContains(status.message(), FeatureName(static_cast<Feature>(i))));
  }
}

TEST(FeaturesTest, AProbeInterruptsNoReceiveThatFollowsIt) {
  ASSERT_TRUE(ProbeFeatures(FeatureSet()).ok());
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  const timeval timeout = {.tv_sec = 0, .tv_usec = 300'000};
  ASSERT_EQ(setsockopt(ends[0], SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout)), 0);
  char byte = 0;
  EXPECT_EQ(recv(ends[0], &byte, 1, 0), -1);
  EXPECT_EQ(errno, EAGAIN);
  close(ends[0]);
  close(ends[1]);
}

TEST(FeaturesTest, WithEverythingHiddenTheOldestRungIsLeft) {
  const absl::StatusOr<Features> features = ProbeFeatures(FeatureSet::All());
  ASSERT_TRUE(features.ok()) << features.status();
  EXPECT_TRUE(features->available.empty());
  EXPECT_TRUE(absl::StrContains(features->Describe(), ": COOP_TASKRUN|TASKRUN_FLAG; "));
}

TEST(FeaturesTest, HidingSingleIssuerHidesDeferredTaskRunningToo) {
  const absl::StatusOr<Features> features = ProbeFeatures(*ParseDisabled("single_issuer"));
  ASSERT_TRUE(features.ok()) << features.status();
  EXPECT_FALSE(features->Has(Feature::kSingleIssuer));
  EXPECT_FALSE(features->Has(Feature::kDeferTaskrun));
}

TEST(FeaturesTest, HidingZeroCopyHidesItsReportToo) {
  const absl::StatusOr<Features> features = ProbeFeatures(*ParseDisabled("send_zc"));
  ASSERT_TRUE(features.ok()) << features.status();
  EXPECT_FALSE(features->Has(Feature::kSendZeroCopyReport));
}

TEST(FeaturesTest, DescribesWhatItHasLacksAndHides) {
  Features features;
  features.kernel_release = "6.1.0";
  features.available.Add(Feature::kSingleIssuer);
  features.available.Add(Feature::kDeferTaskrun);
  features.hidden.Add(Feature::kSendZeroCopy);
  EXPECT_EQ(features.Describe(),
            "io_uring on kernel 6.1.0: SINGLE_ISSUER|DEFER_TASKRUN|TASKRUN_FLAG; has "
            "single_issuer,defer_taskrun; lacks multishot_recv,send_zc_report,register_buffers,"
            "msg_ring_wake,min_wait,cachestat; hidden send_zc");
}

// Runs ProbeFeatures in a child after `prepare`; the status text comes back
// through a pipe, because what is prepared cannot be undone.
template <typename Prepare>
std::string ProbeFailureInChild(Prepare prepare) {
  int fds[2];
  EXPECT_EQ(pipe(fds), 0);
  const pid_t child = fork();
  if (child == 0) {
    prepare();
    const std::string text = ProbeFeatures(FeatureSet()).status().ToString();
    const ssize_t written = write(fds[1], text.data(), text.size());
    _exit(written == static_cast<ssize_t>(text.size()) ? 0 : 1);
  }
  close(fds[1]);
  std::string text;
  char chunk[1024];
  for (ssize_t size; (size = read(fds[0], chunk, sizeof(chunk))) > 0;) {
    text.append(chunk, static_cast<size_t>(size));
  }
  close(fds[0]);
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  return text;
}

// io_uring_setup answers `error`, as a container runtime's filter makes it.
void FilterSetup(unsigned error) {
  sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_io_uring_setup, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program = {4, code};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) _exit(2);
  if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) _exit(3);
}

TEST(FeaturesTest, ASeccompFilterThatForbidsItIsNamed) {
  const std::string text = ProbeFailureInChild([] { FilterSetup(EPERM); });
  EXPECT_TRUE(absl::StrContains(text, "PERMISSION_DENIED")) << text;
  EXPECT_TRUE(absl::StrContains(text, "seccomp=<profile.json>")) << text;
}

TEST(FeaturesTest, ASeccompFilterThatHidesItIsNamed) {
  const std::string text = ProbeFailureInChild([] { FilterSetup(ENOSYS); });
  EXPECT_TRUE(absl::StrContains(text, "UNIMPLEMENTED")) << text;
  EXPECT_TRUE(absl::StrContains(text, "container runtime")) << text;
}

TEST(FeaturesTest, AKernelThatKnowsNoneOfTheFlagsIsTooOld) {
  const std::string text = ProbeFailureInChild([] { FilterSetup(EINVAL); });
  EXPECT_TRUE(absl::StrContains(text, "Linux 5.19 or newer")) << text;
}

TEST(FeaturesTest, AProcessWithoutDescriptorsIsToldSo) {
  const std::string text = ProbeFailureInChild([] {
    const rlimit limit = {3, 3};
    setrlimit(RLIMIT_NOFILE, &limit);
  });
  EXPECT_TRUE(absl::StrContains(text, "RESOURCE_EXHAUSTED")) << text;
  EXPECT_TRUE(absl::StrContains(text, "now 3")) << text;
}

}  // namespace
}  // namespace gyre::uring
