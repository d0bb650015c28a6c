// The example programs as a user runs them: start, use, SIGTERM.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/base/unique_fd.h"
#include "glog/logging.h"
#include "gtest/gtest.h"
#include "tests/integration/network_harness.h"

namespace gyre::testing {
namespace {

class ExampleTest : public ::testing::Test {
 protected:
  explicit ExampleTest(const char* binary) : binary_(binary) {}
  // Starts the program; its first line of output.
  std::string Start(const std::vector<const char*>& flags) {
    int pipe_fds[2];
    CHECK_EQ(pipe(pipe_fds), 0);
    pid_ = fork();
    CHECK_GE(pid_, 0);
    if (pid_ == 0) {
      dup2(pipe_fds[1], STDOUT_FILENO);
      close(pipe_fds[0]);
      std::vector<char*> arguments = {const_cast<char*>(binary_)};
      for (const char* flag : flags) arguments.push_back(const_cast<char*>(flag));
      arguments.push_back(nullptr);
      execv(binary_, arguments.data());
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

  const char* const binary_;
  pid_t pid_ = -1;
};

class EchoServerTest : public ExampleTest {
 protected:
  EchoServerTest() : ExampleTest("tools/examples/echo_server") {}
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
  for (const char* flag : {"--dispatch=nonesuch", "--port=99999", "--port=-1"}) {
    EXPECT_EQ(Start({flag}), "");
    EXPECT_EQ(AwaitExit(), 1) << flag;
  }
}

class HttpFileServerTest : public ExampleTest {
 protected:
  HttpFileServerTest() : ExampleTest("tools/examples/http_file_server") {
    directory_ = absl::StrCat(::testing::TempDir(), "/http_file_server_test_", getpid());
    RemoveFiles();
    CHECK(std::filesystem::create_directories(directory_ + "/below"));
  }
  ~HttpFileServerTest() override { RemoveFiles(); }

  void RemoveFiles() {
    std::error_code ignored;
    std::filesystem::remove_all(directory_, ignored);
  }
  void Write(absl::string_view name, absl::string_view content) {
    std::ofstream file(absl::StrCat(directory_, "/", name), std::ios::binary);
    file.write(content.data(), static_cast<std::streamsize>(content.size()));
    CHECK(file.flush().good());
  }
  // The port it listens on; 0 when it does not.
  uint16_t StartServing() {
    const std::string flag = "--directory=" + directory_;
    const std::string line = Start({flag.c_str()});
    const std::string expected = "http_file_server: listening on 127.0.0.1:";
    if (line.substr(0, expected.size()) != expected) return 0;
    return static_cast<uint16_t>(std::atoi(line.c_str() + expected.size()));
  }
  void Stop() {
    kill(pid_, SIGTERM);
    EXPECT_EQ(AwaitExit(), 0);
  }
  // The next head, with the blank line that ends it.
  static std::string ReadHead(Client& client) {
    std::string head;
    while (!absl::EndsWith(head, "\r\n\r\n")) {
      const std::string byte = client.Read(1);
      if (byte.empty()) return head + "<closed>";
      head += byte;
    }
    return head;
  }
  static std::string StatusLine(const std::string& head) {
    return head.substr(0, head.find("\r\n"));
  }

  std::string directory_;
};

TEST_F(HttpFileServerTest, AnswersWithTheFilesOfItsDirectory) {
  const std::string large = Pattern(1'000'003, 7);
  Write("large", large);
  Write("page.html", "<p>small</p>");
  Write("empty", "");
  const uint16_t port = StartServing();
  ASSERT_NE(port, 0);
  {
    // Pipelined, on one connection.
    Client client(port);
    client.Send(
        "GET /page.html HTTP/1.1\r\nHost: x\r\n\r\n"
        "HEAD /large HTTP/1.1\r\nHost: x\r\n\r\n"
        "GET /empty HTTP/1.1\r\nHost: x\r\n\r\n"
        "GET /large?again HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    std::string head = ReadHead(client);
    EXPECT_EQ(StatusLine(head), "HTTP/1.1 200 OK");
    EXPECT_TRUE(absl::StrContains(head, "\r\nContent-Type: text/html; charset=utf-8\r\n")) << head;
    EXPECT_TRUE(absl::StrContains(head, "\r\nContent-Length: 12\r\n")) << head;
    EXPECT_TRUE(absl::StrContains(head, "\r\nDate: ")) << head;
    EXPECT_EQ(client.Read(12), "<p>small</p>");
    head = ReadHead(client);
    EXPECT_TRUE(absl::StrContains(head, "\r\nContent-Length: 1000003\r\n")) << head;
    head = ReadHead(client);
    EXPECT_TRUE(absl::StrContains(head, "\r\nContent-Length: 0\r\n")) << head;
    head = ReadHead(client);
    EXPECT_TRUE(absl::StrContains(head, "\r\nConnection: close\r\n")) << head;
    EXPECT_TRUE(client.Read(large.size()) == large);
    EXPECT_TRUE(client.AtEnd());
  }
  Stop();
}

TEST_F(HttpFileServerTest, RefusesEverythingElseAndGoesOn) {
  Write("file", "content");
  Write("below/hidden", "not served");
  const uint16_t port = StartServing();
  ASSERT_NE(port, 0);
  {
    Client client(port);
    for (const char* path :
         {"/none", "/", "/below", "/below/hidden", "/below/../file", "/../file"}) {
      client.Send(absl::StrCat("HEAD ", path, " HTTP/1.1\r\nHost: x\r\n\r\n"));
      EXPECT_EQ(StatusLine(ReadHead(client)), "HTTP/1.1 404 Not Found") << path;
    }
    client.Send("POST /file HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc");
    const std::string head = ReadHead(client);
    EXPECT_EQ(StatusLine(head), "HTTP/1.1 405 Method Not Allowed");
    EXPECT_TRUE(absl::StrContains(head, "\r\nAllow: GET, HEAD\r\n")) << head;
    EXPECT_EQ(client.Read(23), "405 Method Not Allowed\n");
    for (const char* path : {"/file", "/%66ile"}) {
      client.Send(absl::StrCat("GET ", path, " HTTP/1.1\r\nHost: x\r\n\r\n"));
      EXPECT_EQ(StatusLine(ReadHead(client)), "HTTP/1.1 200 OK") << path;
      EXPECT_EQ(client.Read(7), "content");
    }
    client.Send("\1\2\3 no HTTP\r\n\r\n");
    EXPECT_EQ(StatusLine(ReadHead(client)), "HTTP/1.1 400 Bad Request");
  }
  Stop();
}

TEST_F(HttpFileServerTest, ADirectoryThatIsNotThereIsAnErrorAndNotAServer) {
  const std::string flag = absl::StrCat("--directory=", directory_, "/none");
  EXPECT_EQ(Start({flag.c_str()}), "");
  EXPECT_EQ(AwaitExit(), 1);
}

class KvServerTest : public ExampleTest {
 protected:
  KvServerTest() : ExampleTest("tools/examples/kv_server") {}
  // Starts it and waits until it serves.
  void SetUp() override {
    const std::string line = Start({});
    int port = 0;
    int control = 0;
    int admin = 0;
    ASSERT_EQ(std::sscanf(line.c_str(),
                          "kv_server: listening on 127.0.0.1:%d, control on %d, admin pages on %d",
                          &port, &control, &admin),
              3)
        << line;
    port_ = static_cast<uint16_t>(port);
    control_port_ = static_cast<uint16_t>(control);
    admin_port_ = static_cast<uint16_t>(admin);
  }
  static std::string Ask(Client& client, absl::string_view request) {
    client.SendFrame(request);
    return client.ReadFrame();
  }
  // The whole answer to one HTTP request.
  std::string Http(absl::string_view what, absl::string_view body = "") {
    Client client(admin_port_);
    client.Send(absl::StrCat(what, " HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: ",
                             body.size(), "\r\n\r\n", body));
    return client.Read(10'000'000);
  }
  bool AwaitInMetrics(absl::string_view text) {
    return AwaitTrue([&] { return absl::StrContains(Http("GET /metrics"), text); });
  }
  void ExpectEnd() {
    kill(pid_, SIGTERM);
    EXPECT_EQ(AwaitExit(), 0);
  }

  uint16_t port_ = 0;
  uint16_t control_port_ = 0;
  uint16_t admin_port_ = 0;
};

TEST_F(KvServerTest, KeepsValuesAndListsKeys) {
  {
    Client client(port_);
    EXPECT_EQ(Ask(client, "get a"), "-");
    EXPECT_EQ(Ask(client, "set a one value"), "+");
    EXPECT_EQ(Ask(client, "get a"), "=one value");
    const std::string large = Pattern(500'000, 1);
    client.SendInBackground(Framed("set large " + large));
    EXPECT_EQ(client.ReadFrame(), "+");
    EXPECT_TRUE(Ask(client, "get large") == "=" + large);
    const std::string keys = Ask(client, "keys");
    EXPECT_TRUE(keys == "=a large " || keys == "=large a ") << keys;
    Client control(control_port_);
    EXPECT_EQ(Ask(control, "count"), "=2");
    // What is no request costs its sender the connection, and nobody else.
    Client other(port_);
    other.SendFrame("nonesuch");
    EXPECT_TRUE(other.AtEnd());
    EXPECT_EQ(Ask(client, "get a"), "=one value");
  }
  ExpectEnd();
}

TEST_F(KvServerTest, AWaitEndsWithItsKeyOrItsTimeAndHoldsNoThread) {
  {
    Client setter(port_);
    EXPECT_EQ(Ask(setter, "wait 1 never"), "-");
    // More than there are handlers.
    std::vector<std::unique_ptr<Client>> waiting;
    for (int i = 0; i < 20; ++i) {
      waiting.push_back(std::make_unique<Client>(port_));
      waiting.back()->SendFrame("wait 600000 key");
    }
    EXPECT_FALSE(waiting.front()->Readable(20));
    EXPECT_EQ(Ask(setter, "set other 1"), "+");
    EXPECT_FALSE(waiting.back()->Readable(20));
    EXPECT_EQ(Ask(setter, "set key 2"), "+");
    for (const auto& client : waiting) EXPECT_EQ(client->ReadFrame(), "=2");
    EXPECT_EQ(Ask(setter, "wait 600000 key"), "=2");
  }
  ExpectEnd();
}

TEST_F(KvServerTest, WhatStillWaitsAtTheEndIsAnswered) {
  Client waiting(port_);
  EXPECT_EQ(Ask(waiting, "get key"), "-");
  waiting.SendFrame("wait 600000 key");
  // Else it may come to a connection that is closed, with nothing under way.
  EXPECT_TRUE(
      AwaitTrue([&] { return absl::StrContains(Http("GET /connections"), "\"in_flight\": 1"); }));
  kill(pid_, SIGTERM);
  EXPECT_EQ(waiting.ReadFrame(), "!stopping");
  EXPECT_TRUE(waiting.AtEnd());
  EXPECT_EQ(AwaitExit(), 0);
}

TEST_F(KvServerTest, ThePagesShowItAndChangeOneOption) {
  {
    Client client(port_);
    EXPECT_EQ(Ask(client, "set a 1"), "+");
    EXPECT_TRUE(AwaitInMetrics("kafka_network_requestmetrics_requests_total{request=\"Set\"} 1"));
    EXPECT_TRUE(absl::StrContains(Http("GET /health"), "200 OK"));
    EXPECT_TRUE(absl::StrContains(Http("GET /ready"), "200 OK"));
    EXPECT_TRUE(absl::StrContains(Http("GET /connections"), "KV"));
    EXPECT_TRUE(absl::StrContains(Http("PUT /flags/slow_request_log_ms", "250"), "200 OK"));
    EXPECT_TRUE(absl::StrContains(Http("GET /flags"), "250"));
    const std::string refused = Http("PUT /flags/slow_request_log_ms", "9223372036854775807");
    EXPECT_TRUE(absl::StrContains(refused, "400 Bad Request")) << refused;
    EXPECT_TRUE(absl::StrContains(refused, "out of range")) << refused;
    EXPECT_EQ(Ask(client, "get a"), "=1");
  }
  ExpectEnd();
}

}  // namespace
}  // namespace gyre::testing
