// Responses with file ranges: every way to send them, hot and cold, to quick and
// slow readers, byte for byte.
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/endian.h"
#include "engine/network/socket_server.h"
#include "gtest/gtest.h"
#include "tests/integration/network_harness.h"

namespace gyre::testing {
namespace {

struct Mode {
  const char* disabled;
  FileTransfer transfer;
};

constexpr int64_t kFileBytes = 6 << 20;

class FileTransferTest : public ::testing::TestWithParam<Mode> {
 protected:
  // A request names ranges, "position:size position:size …"; the response is a
  // header, then each range behind eight bytes of its own.
  void Start(RequestPtr request) {
    int64_t total = 0;
    std::vector<std::pair<int64_t, int64_t>> ranges = Parse(std::string(request->frame()));
    for (const auto& [position, size] : ranges) total += 8 + size;
    Buffer head = Buffer::Allocate(4);
    StoreBigEndian<int32_t>(head.data(), static_cast<int32_t>(total));
    NetworkSend send(std::move(head));
    for (const auto& [position, size] : ranges) {
      Buffer part = Buffer::Allocate(8);
      StoreBigEndian<int64_t>(part.data(), position);
      send.Append(std::move(part));
      send.Append(FileSlice{file_->file(), position, size});
    }
    request.Reply(std::move(send));
  }

  static std::vector<std::pair<int64_t, int64_t>> Parse(const std::string& text) {
    std::vector<std::pair<int64_t, int64_t>> ranges;
    const char* at = text.c_str();
    while (*at != '\0') {
      char* end;
      const int64_t position = std::strtoll(at, &end, 10);
      const int64_t size = std::strtoll(end + 1, &end, 10);
      ranges.emplace_back(position, size);
      at = *end == ' ' ? end + 1 : end;
    }
    return ranges;
  }

  std::string Expected(const std::string& text) const {
    std::string bytes;
    for (const auto& [position, size] : Parse(text)) {
      std::string part(8, '\0');
      StoreBigEndian<int64_t>(part.data(), position);
      bytes += part + content_.substr(static_cast<size_t>(position), static_cast<size_t>(size));
    }
    return bytes;
  }

  void SetUp() override {
    content_ = Pattern(kFileBytes, 11);
    file_ = std::make_unique<TempFile>(content_);
    server_ = std::make_unique<TestServer>(
        GetParam().disabled, [this](RequestPtr request) { Start(std::move(request)); },
        [](SocketServerOptions& options) {
          options.num_network_threads = 1;
          options.processor.connection.file_transfer = GetParam().transfer;
          options.processor.splice_pipe_count = 4;
          // Less than most answers: the socket is full before they are sent.
          options.sockets.send_buffer_bytes = 64 * 1024;
        });
  }

  void TearDown() override {
    EXPECT_TRUE(server_->AwaitConnections(0));
    server_.reset();
  }

  std::string content_;
  std::unique_ptr<TempFile> file_;
  std::unique_ptr<TestServer> server_;
};

std::string NameOf(const ::testing::TestParamInfo<Mode>& info) {
  const char* names[] = {"Auto", "Sendfile", "Splice", "Copy"};
  return absl::StrCat(info.param.disabled[0] == '\0' ? "Full" : "Rung519",
                      names[static_cast<int>(info.param.transfer)]);
}

INSTANTIATE_TEST_SUITE_P(
    Modes, FileTransferTest,
    ::testing::Values(Mode{"", FileTransfer::kAuto}, Mode{"", FileTransfer::kSendfile},
                      Mode{"", FileTransfer::kSplice}, Mode{"", FileTransfer::kCopy},
                      Mode{"all", FileTransfer::kAuto}, Mode{"all", FileTransfer::kSplice},
                      Mode{"all", FileTransfer::kCopy}),
    NameOf);

const char* const kRequests[] = {"0:1",
                                 "5:100",
                                 "4096:4096",
                                 "0:16384",
                                 "1:16385",
                                 "12345:100000",
                                 "0:262144",
                                 "7:262145",
                                 "0:6291456",
                                 "100:20 300:40 5000:60",
                                 "0:10 1000:500000 600000:16384 3:1 5000000:1291456"};

TEST_P(FileTransferTest, HotRangesArriveByteForByte) {
  Client client(server_->port());
  for (const char* request : kRequests) {
    client.SendFrame(request);
    ASSERT_TRUE(client.ReadFrame() == Expected(request)) << request;
  }
  if (GetParam().transfer == FileTransfer::kAuto) {
    EXPECT_GT(server_->Metric("network_file_sendfile_bytes_total"), kFileBytes);
    EXPECT_GT(server_->Metric("network_file_copied_bytes_total"), 20'000);
  }
  if (GetParam().transfer == FileTransfer::kSplice) {
    EXPECT_GT(server_->Metric("network_file_spliced_bytes_total"), kFileBytes);
  }
  if (GetParam().transfer == FileTransfer::kCopy) {
    EXPECT_GT(server_->Metric("network_file_copied_bytes_total"), kFileBytes);
  }
}

TEST_P(FileTransferTest, ColdRangesArriveByteForByte) {
  Client client(server_->port());
  bool cold = true;
  for (const char* request : kRequests) {
    cold = file_->MakeCold() && cold;
    client.SendFrame(request);
    ASSERT_TRUE(client.ReadFrame() == Expected(request)) << request;
  }
  if (cold && GetParam().transfer == FileTransfer::kAuto) {
    EXPECT_GT(server_->Metric("network_file_spliced_bytes_total"), 0);
  }
}

TEST_P(FileTransferTest, SlowReadersWithSmallWindowsGetEveryByte) {
  std::vector<std::thread> threads;
  std::atomic<int> good{0};
  for (int c = 0; c < 8; ++c) {
    threads.emplace_back([&, c] {
      Client client(server_->port(), kSmallWindowBytes);
      const std::string request =
          absl::StrCat(c * 1000, ":", 1'000'000 + c, " 17:300 ", c, ":70000");
      client.SendFrame(request);
      std::string bytes = client.Read(4);
      const std::string expected = Expected(request);
      std::string got;
      while (got.size() < expected.size()) {
        const std::string piece =
            client.Read(std::min<size_t>(50'000, expected.size() - got.size()));
        if (piece.empty()) break;
        got += piece;
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
      if (got == expected) ++good;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(good, 8);
  if (GetParam().transfer != FileTransfer::kCopy) {
    EXPECT_GT(server_->Metric("network_file_short_sends_total"), 0);
  }
}

TEST_P(FileTransferTest, PipelinedFileResponsesStayInOrder) {
  Client client(server_->port());
  std::string stream;
  std::vector<std::string> requests;
  for (int i = 0; i < 100; ++i) {
    requests.push_back(absl::StrCat(i * 1000, ":", (i * 7919) % 60'000 + 1, " ", i, ":9"));
    stream += Framed(requests.back());
  }
  client.SendInBackground(stream);
  for (const std::string& request : requests) {
    ASSERT_TRUE(client.ReadFrame() == Expected(request)) << request;
  }
}

TEST_P(FileTransferTest, AFileThatEndsEarlyClosesTheConnectionAndNoOther) {
  Client bystander(server_->port());
  for (const char* request : {"6291400:100", "6000000:400000", "7000000:10"}) {
    Client client(server_->port());
    client.SendFrame(request);
    EXPECT_EQ(client.ReadFrame(), "<closed>") << request;
    bystander.SendFrame("0:10");
    EXPECT_TRUE(bystander.ReadFrame() == Expected("0:10"));
  }
}

TEST_P(FileTransferTest, AReaderThatLeavesMidwayLeavesNothingBehind) {
  for (int i = 0; i < 12; ++i) {
    Client client(server_->port(), kSmallWindowBytes);
    if (i % 2 == 0) file_->MakeCold();
    client.SendFrame("0:6291456");
    EXPECT_EQ(client.Read(1000 + static_cast<size_t>(i) * 5000).size(),
              1000 + static_cast<size_t>(i) * 5000);
    if (i % 3 == 0) {
      client.Close();
    } else {
      client.Reset();
    }
  }
  // The pipes of the aborted transfers were replaced, not reused.
  Client client(server_->port());
  client.SendFrame("0:6291456");
  EXPECT_TRUE(client.ReadFrame() == Expected("0:6291456"));
}

}  // namespace
}  // namespace gyre::testing
