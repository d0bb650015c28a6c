#include "engine/network/connection/output_queue.h"

#include <memory>
#include <string>
#include <vector>

#include "engine/base/clock.h"
#include "engine/fs/file_system.h"
#include "engine/memory/memory_pool.h"
#include "engine/network/request/request_channel.h"
#include "gtest/gtest.h"

namespace gyre {
namespace {

struct Sink final : ResponseSink {
  void EnqueueResponse(ConnectionRequest* request) override { responses.push_back(request); }
  void EnqueueThrottle(ThrottleSignal*) override {}
  void EnqueueRunStarted(RequestRun*) override {}
  void EnqueueRoom(int) override {}
  std::vector<ConnectionRequest*> responses;
};

class OutputQueueTest : public ::testing::Test {
 protected:
  ConnectionRequest* Push() {
    requests_.push_back(std::make_unique<ConnectionRequest>());
    ConnectionRequest* request = requests_.back().get();
    request->Fill(&channel_, &sink_, nullptr, 0, 0, Buffer(), 0, 1);
    request->MarkStarted(1);
    queue_.Push(request);
    return request;
  }
  int32_t Reply(ConnectionRequest* request, const std::vector<std::string>& parts) {
    NetworkSend send;
    for (const std::string& part : parts) send.Append(Buffer::CopyOf(part));
    RequestPtr(request).Reply(std::move(send));
    return queue_.MarkReady(request);
  }
  // Sends at most `max_bytes` as the sender would; what was sent.
  std::string SendSome(int64_t max_bytes) {
    iovec parts[4];
    int64_t bytes = 0;
    const int count = queue_.Gather(parts, 4, max_bytes, &bytes, &more_follows_);
    std::string sent;
    for (int i = 0; i < count; ++i) {
      sent.append(static_cast<const char*>(parts[i].iov_base), parts[i].iov_len);
    }
    EXPECT_EQ(sent.size(), static_cast<size_t>(bytes));
    if (bytes > 0) queue_.Advance(bytes);
    while (queue_.front() != nullptr && queue_.front_done()) queue_.Pop();
    return sent;
  }

  MemoryPool memory_{MemoryPool::kUnbounded};
  RequestChannel channel_{4, Clock::Real(), memory_};
  Sink sink_;
  // Never read here.
  const FileRef file_ = *FileSystem::Real().Open("/dev/null", OpenMode::kRead);
  std::vector<std::unique_ptr<ConnectionRequest>> requests_;
  OutputQueue queue_;
  bool more_follows_ = false;
};

TEST_F(OutputQueueTest, ResponsesLeaveInTheOrderOfTheirRequests) {
  ConnectionRequest* a = Push();
  ConnectionRequest* b = Push();
  ConnectionRequest* c = Push();
  EXPECT_EQ(Reply(c, {"c"}), 0);
  EXPECT_EQ(queue_.front(), nullptr);
  EXPECT_EQ(Reply(a, {"a"}), 1);
  EXPECT_EQ(SendSome(100), "a");
  EXPECT_EQ(queue_.front(), nullptr);
  EXPECT_EQ(Reply(b, {"b"}), 2);
  EXPECT_EQ(SendSome(100), "bc");
  EXPECT_TRUE(queue_.empty());
}

TEST_F(OutputQueueTest, EveryShortSendIsResumed) {
  for (int64_t step = 1; step <= 12; ++step) {
    ConnectionRequest* a = Push();
    ConnectionRequest* none = Push();
    ConnectionRequest* b = Push();
    Reply(a, {"ab", "c", "def"});
    RequestPtr(none).ReplyNothing();
    queue_.MarkReady(none);
    Reply(b, {"ghij", "kl"});
    std::string sent;
    while (queue_.front() != nullptr) sent += SendSome(step);
    EXPECT_EQ(sent, "abcdefghijkl") << step;
    EXPECT_TRUE(queue_.empty());
  }
}

TEST_F(OutputQueueTest, MoreFollowsOnlyWhenSomethingReadyDoes) {
  ConnectionRequest* a = Push();
  Push();
  Reply(a, {"abc"});
  SendSome(100);
  EXPECT_FALSE(more_follows_);
  ConnectionRequest* c = Push();
  (void)c;
  EXPECT_EQ(queue_.front(), nullptr);
}

TEST_F(OutputQueueTest, OnlyABufferOfWhichNothingLeftMayGrow) {
  ConnectionRequest* a = Push();
  NetworkSend send(Buffer::CopyOf("head"));
  send.Append(FileSlice{file_, 1000, 6});
  send.Append(FileSlice{file_, 2000, 6});
  RequestPtr(a).Reply(std::move(send));
  queue_.MarkReady(a);
  EXPECT_EQ(queue_.UnsentBufferBefore(0), nullptr) << "nothing is before the first part";
  ASSERT_NE(queue_.UnsentBufferBefore(1), nullptr);
  EXPECT_EQ(queue_.UnsentBufferBefore(1)->view(), "head");
  EXPECT_EQ(queue_.UnsentBufferBefore(2), nullptr) << "a slice is no buffer";
  EXPECT_EQ(SendSome(1), "h");
  EXPECT_EQ(queue_.UnsentBufferBefore(1), nullptr) << "some of it left";
  EXPECT_EQ(SendSome(3), "ead");
  EXPECT_EQ(queue_.UnsentBufferBefore(1), nullptr) << "all of it left";
}

TEST_F(OutputQueueTest, ASliceIsReplacedPieceByPiece) {
  ConnectionRequest* a = Push();
  NetworkSend send(Buffer::CopyOf("head"));
  send.Append(FileSlice{file_, 1000, 6});
  send.Append(Buffer::CopyOf("tail"));
  RequestPtr(a).Reply(std::move(send));
  queue_.MarkReady(a);
  EXPECT_EQ(SendSome(100), "head");
  EXPECT_TRUE(more_follows_);
  EXPECT_TRUE(queue_.more_after_part());
  queue_.InsertBeforeSlice(Buffer::CopyOf("1234"));
  EXPECT_EQ(SendSome(3), "123");
  EXPECT_EQ(SendSome(100), "4");
  EXPECT_EQ(std::get<FileSlice>(queue_.front_part()).position, 1004);
  queue_.InsertBeforeSlice(Buffer::CopyOf("56"));
  EXPECT_EQ(SendSome(100), "56tail");
  EXPECT_TRUE(queue_.empty());
}

TEST_F(OutputQueueTest, AReplyInsideStartComesBackWhenStartReturned) {
  ConnectionRequest request;
  request.Fill(&channel_, &sink_, nullptr, 0, 0, Buffer(), 0, 1);
  RequestPtr(&request).ReplyNothing();
  EXPECT_TRUE(sink_.responses.empty());
  EXPECT_TRUE(request.MarkStarted(5));
  request.Fill(&channel_, &sink_, nullptr, 0, 0, Buffer(), 0, 1);
  EXPECT_FALSE(request.MarkStarted(5));
  RequestPtr(&request).ReplyNothing();
  EXPECT_EQ(sink_.responses.size(), 1u);
}

}  // namespace
}  // namespace gyre
