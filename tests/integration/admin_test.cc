// The admin listener over real sockets, with pages of a fake program.
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "engine/admin/admin_server.h"
#include "engine/concurrent/mutex.h"
#include "gtest/gtest.h"
#include "tests/integration/network_harness.h"

namespace gyre {
namespace {

using testing::AwaitTrue;
using testing::Client;

// Pages come from the admin server's handlers, several at once.
class FakeSource final : public AdminSource {
 public:
  std::string Metrics() override {
    MutexLock lock(mutex_);
    ++metrics_calls_;
    while (metrics_held_) changed_.Wait(mutex_);
    return metrics_;
  }
  absl::Status Health() override {
    MutexLock lock(mutex_);
    return health_;
  }
  absl::Status Ready() override { return absl::UnavailableError("recovering"); }
  AdminVersion Version() override { return {.program = "fake", .version = "1"}; }
  std::vector<AdminFlag> Flags() override {
    return {
        {.name = "window_ms", .group = "G", .value = value(), .default_value = "1", .live = true},
        {.name = "name", .group = "G", .value = "x", .good_values = "x or nothing"}};
  }
  absl::Status SetFlag(absl::string_view name, absl::string_view text) override {
    if (name != "window_ms") return absl::NotFoundError("no such flag");
    if (text == "bad") return absl::InvalidArgumentError("it must be from 1 to 5");
    MutexLock lock(mutex_);
    ++writes_begun_;
    while (writes_held_) changed_.Wait(mutex_);
    value_ = std::string(text);
    return absl::OkStatus();
  }
  std::vector<ConnectionInfo> Connections(size_t max_count, int64_t* open_count) override {
    *open_count = 7;
    ConnectionInfo info;
    info.peer = "10.0.0.1:5";
    info.client_id = "\xff\xfe\"<script>";
    info.state = "idle";
    return std::vector<ConnectionInfo>(std::min<size_t>(max_count, 1), info);
  }

  void SetMetrics(std::string text) {
    MutexLock lock(mutex_);
    metrics_ = std::move(text);
  }
  // While held, the page is not answered.
  void HoldMetrics(bool hold) {
    MutexLock lock(mutex_);
    metrics_held_ = hold;
    changed_.NotifyAll();
  }
  // While held, no write ends.
  void HoldWrites(bool hold) {
    MutexLock lock(mutex_);
    writes_held_ = hold;
    changed_.NotifyAll();
  }
  int writes_begun() const {
    MutexLock lock(mutex_);
    return writes_begun_;
  }
  int metrics_calls() const {
    MutexLock lock(mutex_);
    return metrics_calls_;
  }
  void SetHealth(absl::Status health) {
    MutexLock lock(mutex_);
    health_ = std::move(health);
  }
  std::string value() const {
    MutexLock lock(mutex_);
    return value_;
  }

 private:
  mutable Mutex mutex_;
  CondVar changed_;
  std::string metrics_ ABSL_GUARDED_BY(mutex_) = "# TYPE a counter\na 1\n";
  bool metrics_held_ ABSL_GUARDED_BY(mutex_) = false;
  bool writes_held_ ABSL_GUARDED_BY(mutex_) = false;
  int writes_begun_ ABSL_GUARDED_BY(mutex_) = 0;
  int metrics_calls_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Status health_ ABSL_GUARDED_BY(mutex_);
  std::string value_ ABSL_GUARDED_BY(mutex_) = "1";
};

struct Answer {
  int status = 0;
  std::string head;
  std::string body;
};

class AdminTest : public ::testing::Test {
 protected:
  void StartServer(const std::function<void(AdminServerOptions&)>& change = {}) {
    AdminServerOptions options;
    options.endpoint = {"ADMIN", "127.0.0.1", 0};
    if (change) change(options);
    server_ = std::make_unique<AdminServer>(std::move(options), source_);
    const absl::Status status = server_->Start();
    ASSERT_TRUE(status.ok()) << status;
  }
  uint16_t port() const { return server_->endpoint().port; }

  // The next answer on the connection; status 0 when there is none.
  static Answer ReadAnswer(Client& client, bool head_only = false) {
    Answer answer;
    while (!absl::EndsWith(answer.head, "\r\n\r\n")) {
      const std::string byte = client.Read(1);
      if (byte.empty()) return Answer();
      answer.head += byte;
    }
    EXPECT_TRUE(absl::StartsWith(answer.head, "HTTP/1.1 ")) << answer.head;
    EXPECT_TRUE(absl::SimpleAtoi(answer.head.substr(9, 3), &answer.status));
    size_t length = 0;
    const size_t at = answer.head.find("Content-Length: ") + 16;
    EXPECT_TRUE(absl::SimpleAtoi(answer.head.substr(at, answer.head.find('\r', at) - at), &length));
    if (!head_only) answer.body = client.Read(length);
    return answer;
  }
  Answer Ask(const std::string& bytes) {
    Client client(port());
    client.Send(bytes);
    return ReadAnswer(client);
  }
  Answer Get(const std::string& path) {
    return Ask("GET " + path + " HTTP/1.1\r\nHost: a\r\n\r\n");
  }

  FakeSource source_;
  std::unique_ptr<AdminServer> server_;
};

TEST_F(AdminTest, PagesAnswerGetAndHead) {
  StartServer();
  EXPECT_EQ(Get("/metrics").body, "# TYPE a counter\na 1\n");
  EXPECT_TRUE(absl::StrContains(Get("/metrics").head, "text/plain; version=0.0.4"));
  EXPECT_EQ(Get("/health").status, 200);
  EXPECT_EQ(Get("/ready").status, 503);
  EXPECT_EQ(Get("/ready").body, "recovering\n");
  EXPECT_TRUE(absl::StrContains(Get("/version").body, "\"program\": \"fake\""));
  EXPECT_EQ(Get("/flags").body, "# G\nwindow_ms=1  # live\nname=x  # default \"\"; x or nothing\n");
  EXPECT_EQ(Get("/flags?format=text").body, Get("/flags").body);
  EXPECT_EQ(Get("/flags?format=xml").body, "400 Bad Request: format must be json or text\n");
  EXPECT_TRUE(absl::StrContains(Get("/").body, "POST /flags "));
  EXPECT_TRUE(absl::StrContains(Get("/flags?format=json").body, "\"live\": true"));
  EXPECT_EQ(Get("/flags/nope").status, 404);
  EXPECT_EQ(Get("/metrics/x").status, 404);
  EXPECT_TRUE(absl::StrContains(Get("/").body, "/connections"));
  source_.SetHealth(absl::UnavailableError("one partition is offline"));
  EXPECT_EQ(Get("/health").status, 503);

  Client client(port());
  client.Send("HEAD /metrics HTTP/1.1\r\nHost: a\r\n\r\nGET /metrics HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_TRUE(absl::StrContains(ReadAnswer(client, true).head, "Content-Length: 21\r\n"));
  EXPECT_EQ(ReadAnswer(client).body, "# TYPE a counter\na 1\n");
}

TEST_F(AdminTest, ConnectionsAreJsonWhateverClientsCallThemselves) {
  StartServer();
  const std::string body = Get("/connections").body;
  EXPECT_TRUE(absl::StrContains(body, "\"open\": 7")) << body;
  EXPECT_TRUE(absl::StrContains(body, "\\\"<script>")) << body;
  EXPECT_FALSE(absl::StrContains(body, "\xff"));
  EXPECT_TRUE(absl::StrContains(Get("/connections?limit=0").body, "\"connections\": []"));
  EXPECT_EQ(Get("/connections?limit=x").status, 400);
}

TEST_F(AdminTest, LiveFlagsAreWritten) {
  StartServer();
  EXPECT_EQ(Ask("PUT /flags/window_ms HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n3\n").status,
            200);
  EXPECT_EQ(source_.value(), "3");
  EXPECT_EQ(Ask("POST /flags HTTP/1.1\r\nHost: a\r\nContent-Length: 11\r\n\r\nwindow_ms=4").status,
            200);
  EXPECT_EQ(source_.value(), "4");
  EXPECT_EQ(Ask("POST /flags HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
                "Transfer-Encoding: chunked\r\n\r\n10\r\n{\"window_ms\": 5}\r\n0\r\n\r\n")
                .status,
            200);
  EXPECT_EQ(source_.value(), "5");
}

TEST_F(AdminTest, BadWritesAreOneClearErrorAndChangeNothing) {
  StartServer();
  const auto post = [&](const std::string& headers, const std::string& body) {
    return Ask(absl::StrCat("POST /flags HTTP/1.1\r\nHost: a\r\n", headers,
                            "Content-Length: ", body.size(), "\r\n\r\n", body));
  };
  const std::string json = "Content-Type: application/json\r\n";
  EXPECT_EQ(post("", "window_ms=bad").status, 400);
  EXPECT_TRUE(absl::StrContains(post("", "window_ms=bad").body, "from 1 to 5"));
  EXPECT_EQ(post("", "nope=1").status, 404);
  EXPECT_EQ(post("", "").status, 400);
  EXPECT_EQ(post("", "window_ms=1&window_ms=2").status, 400);
  EXPECT_EQ(post(json, "{").status, 400);
  EXPECT_EQ(post(json, "[1]").status, 400);
  EXPECT_EQ(post(json, "{\"window_ms\": [9]}").status, 400);
  EXPECT_EQ(post(json, "{\"a\": 1, \"b\": 2}").status, 400);
  EXPECT_EQ(post("Origin: http://evil.example\r\n", "window_ms=2").status, 403);
  EXPECT_EQ(Ask("DELETE /flags HTTP/1.1\r\nHost: a\r\n\r\n").status, 405);
  EXPECT_TRUE(
      absl::StrContains(Ask("PUT /flags HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n").head,
                        "Allow: GET, HEAD, POST\r\n"));
  EXPECT_EQ(Ask("POST /metrics HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n").status, 405);
  EXPECT_EQ(source_.value(), "1");
}

TEST_F(AdminTest, WritesThatTakeTheirTimeHoldNoPagesUp) {
  StartServer();
  source_.HoldWrites(true);
  std::vector<Client> writers;
  for (int i = 0; i < 8; ++i) {
    writers.emplace_back(port());
    writers.back().Send("PUT /flags/window_ms HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\n3");
    // One after the other, so that it is known which are refused.
    if (i < 2) ASSERT_TRUE(AwaitTrue([&] { return source_.writes_begun() == i + 1; }));
  }
  for (int i = 2; i < 8; ++i) {
    const Answer refused = ReadAnswer(writers[i]);
    EXPECT_EQ(refused.status, 503);
    EXPECT_TRUE(absl::StrContains(refused.body, "try again")) << refused.body;
  }
  EXPECT_EQ(Get("/health").status, 200);
  EXPECT_EQ(Get("/flags").status, 200);
  source_.HoldWrites(false);
  EXPECT_EQ(ReadAnswer(writers[0]).status, 200);
  EXPECT_EQ(ReadAnswer(writers[1]).status, 200);
  EXPECT_EQ(Ask("PUT /flags/window_ms HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\n4").status,
            200);
}

TEST_F(AdminTest, WritesAreForLoopbackUnlessAllowed) {
  const HttpLimits limits;
  const HttpRequest request = ParseHttpRequest(
      "PUT /flags/window_ms HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\n2", limits);
  const auto ask = [&](AdminWrites writes, const char* peer) {
    return AdminHandler(source_, limits, writes, Clock::Real(), nullptr).Answer(request, peer);
  };
  EXPECT_EQ(ask(AdminWrites::kLoopback, "10.1.2.3:127").status, 403);
  EXPECT_EQ(ask(AdminWrites::kLoopback, "[2001:db8::1]:1").status, 403);
  EXPECT_EQ(ask(AdminWrites::kNone, "127.0.0.1:9").status, 403);
  EXPECT_EQ(source_.value(), "1");
  EXPECT_EQ(ask(AdminWrites::kLoopback, "127.0.0.1:9").status, 200);
  EXPECT_EQ(ask(AdminWrites::kLoopback, "[::1]:9").status, 200);
  EXPECT_EQ(ask(AdminWrites::kAny, "10.1.2.3:1").status, 200);
}

TEST_F(AdminTest, RequestsOfOneConnectionAreAnsweredInOrder) {
  StartServer();
  Client client(port());
  std::string bytes;
  for (int i = 0; i < 50; ++i) {
    bytes += i % 2 == 0 ? "GET /health HTTP/1.1\r\nHost: a\r\n\r\n"
                        : "GET /nope HTTP/1.1\r\nHost: a\r\n\r\n";
  }
  client.SendInBackground(bytes);
  for (int i = 0; i < 50; ++i) EXPECT_EQ(ReadAnswer(client).status, i % 2 == 0 ? 200 : 404) << i;
}

TEST_F(AdminTest, ARequestMayComeByteByByte) {
  StartServer();
  Client client(port());
  for (const char c : std::string("GET /health HTTP/1.1\r\nHost: a\r\n\r\n")) {
    client.Send(absl::string_view(&c, 1));
  }
  EXPECT_EQ(ReadAnswer(client).status, 200);
}

TEST_F(AdminTest, TheConnectionEndsWhenTheVersionSaysSo) {
  StartServer();
  Client old(port());
  old.Send("GET /health HTTP/1.0\r\n\r\n");
  EXPECT_EQ(ReadAnswer(old).status, 200);
  EXPECT_TRUE(old.AtEnd());
  Client last(port());
  last.Send(
      "GET /health HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\nGET /health HTTP/1.1\r\nHost: "
      "a\r\n\r\n");
  EXPECT_EQ(ReadAnswer(last).status, 200);
  EXPECT_EQ(ReadAnswer(last).status, 0);
}

TEST_F(AdminTest, GarbageAndExcessAreAnsweredAndClosed) {
  StartServer();
  const std::string many(100'000, 'a');
  const std::pair<std::string, int> cases[] = {
      {std::string("\x16\x03\x01\x02\x00\x01\x00\xff", 8), 400},
      {std::string("\0\0\0\x1c\0\x12\0\3", 8), 400},
      {"GET /" + many, 414},
      {"GET / HTTP/1.1\r\nHost: a\r\nA: " + many, 431},
      {"POST /flags HTTP/1.1\r\nHost: a\r\nContent-Length: 999999999\r\n\r\n", 413},
      {"POST /flags HTTP/1.1\r\nHost: a\r\n\r\n", 411},
      {"GET / HTTP/2.0\r\n\r\n", 505},
  };
  for (const auto& [bytes, status] : cases) {
    Client client(port());
    client.SendInBackground(bytes);
    EXPECT_EQ(ReadAnswer(client).status, status) << bytes.substr(0, 40);
  }
  EXPECT_EQ(Get("/health").status, 200);
}

// A proxy in front would take the second answer for that of somebody else's request.
TEST_F(AdminTest, WhatFollowsAHeadOfUnknownLengthIsNeverServed) {
  StartServer();
  const std::string next = "GET /health HTTP/1.1\r\nHost: a\r\n\r\n";
  const std::string long_text(9000, 'a');
  const std::pair<std::string, int> cases[] = {
      {"POST /flags HTTP/1.1\r\nHost: a\r\n\r\n", 411},
      {"POST /flags HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n", 501},
      {"GET /flags HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", 501},
      {"POST /flags HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
       400},
      {"POST /flags HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 9\r\n\r\n", 400},
      {"POST /flags HTTP/1.1\r\nHost: a\r\nContent-Length : 9\r\n\r\n", 400},
      {"POST /flags HTTP/1.1\r\nHost: a\r\nContent-Length: nine\r\n\r\n", 400},
      {"POST /flags HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nnine\r\n", 400},
      {"POST /flags HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999\r\n\r\n", 413},
      {"POST /flags HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2328\r\n" + long_text,
       413},
      {"GET /" + long_text + " HTTP/1.1\r\nHost: a\r\n\r\n", 414},
      {"POST /flags HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\nExpect: 100-continue\r\n\r\n", 417},
      {"GET / HTTP/1.1\r\nHost: a\r\nA: " + long_text + "\r\n\r\n", 431},
      {"GET / HTTP/2.1\r\n\r\n", 505},
      {"CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n", 405},
  };
  for (const auto& [head, status] : cases) {
    for (const bool at_once : {true, false}) {
      Client client(port());
      client.Send(at_once ? head + next : head);
      const Answer answer = ReadAnswer(client);
      EXPECT_EQ(answer.status, status) << head.substr(0, 80);
      EXPECT_TRUE(absl::StrContains(answer.head, "Connection: close\r\n")) << head.substr(0, 80);
      EXPECT_EQ(ReadAnswer(client).status, 0) << head.substr(0, 80);
    }
  }
}

TEST_F(AdminTest, ABodyThatIsTooLongIsReadAndTheConnectionGoesOn) {
  StartServer();
  Client client(port());
  client.SendInBackground(
      absl::StrCat("POST /flags HTTP/1.1\r\nHost: a\r\nContent-Length: 500000\r\n\r\n",
                   std::string(500'000, 'x'), "GET /health HTTP/1.1\r\nHost: a\r\n\r\n"));
  EXPECT_EQ(ReadAnswer(client).status, 413);
  EXPECT_EQ(ReadAnswer(client).status, 200);
}

TEST_F(AdminTest, ASlowRequestGets408WhileOthersAreServed) {
  StartServer([](AdminServerOptions& options) { options.request_timeout_ms = 150; });
  Client slow(port());
  slow.Send("GET /health HTTP/1.1\r\nHost:");
  // Never silent, never whole.
  std::thread drip([&] {
    for (int i = 0; i < 20'000 && !slow.Readable(1); ++i) slow.Send("a");
  });
  EXPECT_EQ(Get("/health").status, 200);
  EXPECT_EQ(ReadAnswer(slow).status, 408);
  drip.join();
}

TEST_F(AdminTest, AnIdleConnectionIsClosed) {
  StartServer([](AdminServerOptions& options) { options.connections_max_idle_ms = 100; });
  Client client(port());
  client.Send("GET /health HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_EQ(ReadAnswer(client).status, 200);
  EXPECT_TRUE(client.AtEnd());
}

// --- who gets in ------------------------------------------------------------------------

TEST_F(AdminTest, ConnectionsThatStayLockNobodyOut) {
  StartServer([](AdminServerOptions& options) { options.max_connections = 4; });
  std::vector<Client> staying;
  for (int i = 0; i < 4; ++i) {
    staying.emplace_back(port());
    staying.back().Send("GET /health HTTP/1.1\r\nHost: a\r\n\r\n");
    ASSERT_EQ(ReadAnswer(staying.back()).status, 200) << i;
  }
  // Used again: the second is the least recently used now.
  staying[0].Send("GET /health HTTP/1.1\r\nHost: a\r\n\r\n");
  ASSERT_EQ(ReadAnswer(staying[0]).status, 200);
  EXPECT_EQ(Get("/health").status, 200);
  EXPECT_TRUE(staying[1].AtEnd());
  // Each that comes finds a place, however many there were.
  for (int i = 0; i < 10; ++i) {
    staying.emplace_back(port());
    staying.back().Send("GET /health HTTP/1.1\r\nHost: a\r\n\r\n");
    ASSERT_EQ(ReadAnswer(staying.back()).status, 200) << i;
  }
  EXPECT_TRUE(staying[0].AtEnd());
}

TEST_F(AdminTest, ReadersThatDoNotReadLockNobodyOut) {
  source_.SetMetrics(std::string(8 << 20, 'm'));
  StartServer([](AdminServerOptions& options) { options.max_connections = 4; });
  std::vector<Client> unread;
  for (int i = 0; i < 4; ++i) {
    unread.emplace_back(port(), testing::kSmallWindowBytes);
    unread.back().Send(
        "GET /metrics HTTP/1.1\r\nHost: a\r\n\r\nGET /metrics HTTP/1.1\r\nHost: a\r\n\r\n");
    ASSERT_TRUE(unread.back().Readable(20'000));
  }
  EXPECT_EQ(Get("/health").status, 200);
  // One that has nothing in flight goes before those that have.
  Client idle(port());
  idle.Send("GET /health HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_EQ(ReadAnswer(idle).status, 200);
  Client next(port());
  next.Send("GET /health HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_EQ(ReadAnswer(next).status, 200);
  EXPECT_EQ(Get("/health").status, 200);
}

TEST_F(AdminTest, RequestsOfAClientThatIsGoneAreNotServed) {
  StartServer();
  source_.HoldMetrics(true);
  Client client(port());
  std::string bytes;
  for (int i = 0; i < 500; ++i) bytes += "GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n";
  client.Send(bytes);
  ASSERT_TRUE(AwaitTrue([&] { return source_.metrics_calls() == 1; }));
  client.Reset();
  // By now the processor knows that it is gone.
  EXPECT_EQ(Get("/health").status, 200);
  source_.HoldMetrics(false);
  EXPECT_EQ(Get("/health").status, 200);
  EXPECT_EQ(Get("/metrics").status, 200);
  EXPECT_EQ(source_.metrics_calls(), 2);
}

}  // namespace
}  // namespace gyre
