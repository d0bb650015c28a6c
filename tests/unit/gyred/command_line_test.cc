// gyred's command line and flag files: what is wrong in either is one line that says
// where, what, and what would be right; nothing is passed over.
#include "tools/gyred/flags/command_line.h"

#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gflags/gflags.h"
#include "gtest/gtest.h"
#include "tools/gyred/flags/flag_registry.h"
#include "tools/gyred/flags/nearest_name.h"

DEFINE_int64(test_limit_bytes, 5, "A number.");
DEFINE_int32(test_thread_count, 3, "A number with bounds.");
DEFINE_string(test_places, "", "Any text.");
DEFINE_bool(test_enabled, false, "A switch.");

namespace gyre {
namespace {

FlagGroup TestGroup() {
  return {"Tests",
          {
              FlagSpec("test_limit_bytes").AtLeast(-1),
              FlagSpec("test_thread_count").Between(1, 256),
              FlagSpec("test_places"),
              FlagSpec("test_enabled"),
          },
          nullptr};
}

class CommandLineTest : public testing::Test {
 protected:
  std::string Write(const std::string& name, const std::string& text) {
    const std::string path = absl::StrCat(testing::TempDir(), "/", name);
    std::ofstream(path) << text;
    return path;
  }
  absl::Status Parse(const std::vector<std::string>& arguments) {
    return ParseCommandLine(arguments, registry_);
  }
  // The error of a flag file that holds `text`.
  std::string ErrorOfFile(const std::string& text) {
    return std::string(Parse({"--flagfile=" + Write("flags", text)}).message());
  }

  gflags::FlagSaver saver_;
  FlagRegistry registry_{{TestGroup()}};
};

TEST_F(CommandLineTest, EveryFormSetsItsFlag) {
  ASSERT_TRUE(Parse({"--test_limit_bytes=7", "-test_thread_count", "9", "--test_enabled",
                     "--test_places=A://h:1,B://h:2=x"})
                  .ok());
  EXPECT_EQ(FLAGS_test_limit_bytes, 7);
  EXPECT_EQ(FLAGS_test_thread_count, 9);
  EXPECT_TRUE(FLAGS_test_enabled);
  EXPECT_EQ(FLAGS_test_places, "A://h:1,B://h:2=x");
  ASSERT_TRUE(Parse({"--notest_enabled", "--test_limit_bytes", "-1", "--test-places="}).ok());
  EXPECT_FALSE(FLAGS_test_enabled);
  EXPECT_EQ(FLAGS_test_limit_bytes, -1);
  EXPECT_EQ(FLAGS_test_places, "");
}

TEST_F(CommandLineTest, InAFileACommentMayStandBehindAFlag) {
  ASSERT_EQ(ErrorOfFile("--test_places=/data/x # the data\n"
                        "--test_thread_count=21\t# threads\n  # alone\n#\n"),
            "");
  EXPECT_EQ(FLAGS_test_places, "/data/x");
  EXPECT_EQ(FLAGS_test_thread_count, 21);
  ASSERT_EQ(ErrorOfFile("--test_places=a#b\n"), "");
  EXPECT_EQ(FLAGS_test_places, "a#b");
}

TEST_F(CommandLineTest, LaterFlagsWinWhereverTheyStand) {
  const std::string path = Write("order", "# a comment\n\n  --test_thread_count=20\r\n");
  ASSERT_TRUE(Parse({"--test_thread_count=10", "--flagfile=" + path}).ok());
  EXPECT_EQ(FLAGS_test_thread_count, 20);
  ASSERT_TRUE(Parse({"--flagfile", path, "--test_thread_count=30"}).ok());
  EXPECT_EQ(FLAGS_test_thread_count, 30);
}

TEST_F(CommandLineTest, AWrongArgumentIsOneLineThatSaysWhatIsRight) {
  struct Case {
    std::vector<std::string> arguments;
    const char* message;
  };
  const Case cases[] = {
      {{"--test_limit=5"}, "there is no flag --test_limit; did you mean --test_limit_bytes?"},
      {{"--test_limit_byte", "5"},
       "there is no flag --test_limit_byte; did you mean --test_limit_bytes?"},
      {{"--test.thread.count=5"},
       "there is no flag --test.thread.count; did you mean --test_thread_count?"},
      {{"--nosuchthing"}, "there is no flag --nosuchthing"},
      {{"--=5"}, "there is no flag --"},
      {{"--test_limit_bytes=10G"},
       "--test_limit_bytes=10G is not valid; it must be a whole number, at least -1"},
      {{"--test_limit_bytes", "10G"},
       "--test_limit_bytes=10G is not valid; it must be a whole number, at least -1"},
      {{"--test_thread_count=257"},
       "--test_thread_count=257 is not valid; it must be a whole number, from 1 to 256"},
      {{"--test_thread_count="},
       "--test_thread_count= is not valid; it must be a whole number, from 1 to 256"},
      {{"--test_enabled=maybe"}, "--test_enabled=maybe is not valid; it must be true or false"},
      {{"--test_places"}, "--test_places lacks its value: --test_places=…"},
      {{"test_places"}, "'test_places' is not a flag; see gyred --help"},
      {{"--test_enabled", "true"}, "'true' is not a flag; see gyred --help"},
      {{"-"}, "'-' is not a flag; see gyred --help"},
      {{"--flagfile=/nonexistent/flags"},
       "--flagfile=/nonexistent/flags: open /nonexistent/flags: No such file or directory "
       "(ENOENT)"},
      {{"--fromenv=test_unset"},
       "--fromenv=test_unset: FLAGS_test_unset is not in the environment"},
  };
  for (const Case& wrong : cases) EXPECT_EQ(Parse(wrong.arguments).message(), wrong.message);
}

TEST_F(CommandLineTest, AWrongLineIsNamedByFileAndNumber) {
  const std::string path = absl::StrCat(testing::TempDir(), "/flags");
  EXPECT_EQ(ErrorOfFile("--test_enabled\n--test_limt_bytes=5\n"),
            absl::StrCat(path,
                         ":2: there is no flag --test_limt_bytes; did you mean "
                         "--test_limit_bytes?"));
  EXPECT_EQ(ErrorOfFile("\n# x\n--test_limit_bytes 5\n"),
            absl::StrCat(path,
                         ":3: '--test_limit_bytes 5' is not a flag; in a file it is "
                         "--test_limit_bytes=5"));
  EXPECT_EQ(ErrorOfFile("--test_limit_bytes = 5"),
            absl::StrCat(path,
                         ":1: '--test_limit_bytes = 5' is not a flag; in a file it is "
                         "--test_limit_bytes=5"));
  EXPECT_EQ(ErrorOfFile("test_limit_bytes=5"),
            absl::StrCat(path,
                         ":1: 'test_limit_bytes=5' is not a flag; it is "
                         "--test_limit_bytes=5"));
  EXPECT_EQ(ErrorOfFile("--test_thread_count=0"),
            absl::StrCat(path,
                         ":1: --test_thread_count=0 is not valid; it must be a whole number, "
                         "from 1 to 256"));
  EXPECT_EQ(ErrorOfFile("--test_places"),
            absl::StrCat(path, ":1: --test_places lacks its value: --test_places=…"));
}

TEST_F(CommandLineTest, AFileWithinAFileIsReadAndNamed) {
  const std::string inner = Write("inner", "--test_thread_count=40\n--oops\n");
  const std::string outer = Write("outer", absl::StrCat("--flagfile=", inner, "\n"));
  EXPECT_EQ(Parse({"--flagfile=" + outer}).message(),
            absl::StrCat(outer, ":1: ", inner, ":2: there is no flag --oops"));
  EXPECT_EQ(FLAGS_test_thread_count, 40);
}

TEST_F(CommandLineTest, FilesThatNameEachOtherComeToAnEnd) {
  const std::string path = absl::StrCat(testing::TempDir(), "/round");
  Write("round", absl::StrCat("--flagfile=", path, "\n"));
  EXPECT_TRUE(absl::StrContains(Parse({"--flagfile=" + path}).message(), "within each other"));
}

TEST_F(CommandLineTest, TheEnvironmentIsReadWhereItIsAskedFor) {
  setenv("FLAGS_test_thread_count", "50", 1);
  setenv("FLAGS_test_limit_bytes", "much", 1);
  EXPECT_TRUE(Parse({"--tryfromenv=test_thread_count,test_places"}).ok());
  EXPECT_EQ(FLAGS_test_thread_count, 50);
  EXPECT_TRUE(absl::StartsWith(Parse({"--fromenv=test_limit_bytes"}).message(),
                               "FLAGS_test_limit_bytes: --test_limit_bytes=much is not valid"));
  unsetenv("FLAGS_test_thread_count");
  unsetenv("FLAGS_test_limit_bytes");
}

TEST(NearestNameTest, SlipsAndPartsAreFoundAndStrangersAreNot) {
  const std::vector<std::string> names = {
      "listeners", "log_dirs", "num_io_threads", "num_network_threads", "memory_limit_bytes", "v"};
  EXPECT_EQ(NearestName("listners", names), "listeners");
  EXPECT_EQ(NearestName("LISTENERS", names), "listeners");
  EXPECT_EQ(NearestName("log_dir", names), "log_dirs");
  EXPECT_EQ(NearestName("num.io.threads", names), "num_io_threads");
  EXPECT_EQ(NearestName("memory_limit", names), "memory_limit_bytes");
  EXPECT_EQ(NearestName("network_threads", names), "num_network_threads");
  for (const char* stranger : {"", "x", "q", "zookeeper", "frobnicate"}) {
    EXPECT_EQ(NearestName(stranger, names), "") << stranger;
  }
}

}  // namespace
}  // namespace gyre
