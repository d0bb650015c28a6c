// The example program as a user runs it: start, echo, SIGTERM.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "engine/base/unique_fd.h"
#include "glog/logging.h"
#include "gtest/gtest.h"
#include "tests/integration/network_harness.h"

namespace gyre::testing {
namespace {

constexpr char kBinary[] = "tools/examples/echo_server";

class EchoServerTest : public ::testing::Test {
 protected:
  // Starts the program; its first line of output.
  std::string Start(const std::vector<const char*>& flags) {
    int pipe_fds[2];
    CHECK_EQ(pipe(pipe_fds), 0);
    pid_ = fork();
    CHECK_GE(pid_, 0);
    if (pid_ == 0) {
      dup2(pipe_fds[1], STDOUT_FILENO);
      close(pipe_fds[0]);
      std::vector<char*> arguments = {const_cast<char*>(kBinary)};
      for (const char* flag : flags) arguments.push_back(const_cast<char*>(flag));
      arguments.push_back(nullptr);
      execv(kBinary, arguments.data());
      _exit(127);
    }
    close(pipe_fds[1]);
    const UniqueFd out(pipe_fds[0]);
    std::string line;
    char byte;
    while (read(out.get(), &byte, 1) == 1 && byte != '\n') line.push_back(byte);
    return line;
  }
  int AwaitExit() {
    int status = 0;
    CHECK_EQ(waitpid(pid_, &status, 0), pid_);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

  pid_t pid_ = -1;
};

class EchoServerFlagsTest : public EchoServerTest,
                            public ::testing::WithParamInterface<std::vector<const char*>> {};

INSTANTIATE_TEST_SUITE_P(Flags, EchoServerFlagsTest,
                         ::testing::Values(std::vector<const char*>{},
                                           std::vector<const char*>{"--dispatch=pool",
                                                                    "--num_io_threads=2"},
                                           std::vector<const char*>{"--uring_disable=all"}));

TEST_P(EchoServerFlagsTest, AnswersAndEndsOnSigterm) {
  const std::string line = Start(GetParam());
  const std::string expected = "echo_server: listening on 127.0.0.1:";
  ASSERT_EQ(line.substr(0, expected.size()), expected);
  Client client(static_cast<uint16_t>(std::atoi(line.c_str() + expected.size())));
  for (const size_t size : {0u, 1u, 128u, 4096u, 4097u, 100'000u, 2'000'000u}) {
    const std::string payload = Pattern(size, size);
    client.SendInBackground(Framed(payload));
    ASSERT_TRUE(client.ReadFrame() == payload) << size;
  }
  kill(pid_, SIGTERM);
  EXPECT_TRUE(client.AtEnd());
  EXPECT_EQ(AwaitExit(), 0);
}

TEST_F(EchoServerTest, AWrongFlagIsAnErrorAndNotAServer) {
  EXPECT_EQ(Start({"--dispatch=nonesuch"}), "");
  EXPECT_EQ(AwaitExit(), 1);
}

}  // namespace
}  // namespace gyre::testing
