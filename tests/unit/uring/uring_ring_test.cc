#include "engine/uring/uring_ring.h"

#include <netinet/tcp.h>
#include <poll.h>

#include <algorithm>
#include <chrono>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "tests/unit/uring/uring_test_util.h"

namespace gyre::uring {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr int64_t kMs = 1'000'000;
constexpr uint32_t kBufferBytes = 64;
constexpr Token kRecv = {OpKind::kRecv, 1, 7};
constexpr Token kSend = {OpKind::kSend, 1, 7};
constexpr Token kAccept = {OpKind::kAccept, 2, 0};
constexpr Token kFile = {OpKind::kFile, 3, 9};
constexpr Token kPoll = {OpKind::kPoll, 4, 1};
constexpr Token kCancel = {OpKind::kCancel, 5, 2};

class UringRingTest : public ::testing::TestWithParam<Rung> {
 protected:
  UringRingTest() : ring_(MakeRing(GetParam())) { EXPECT_TRUE(ring_->Attach().ok()); }

  void Provide(uint32_t count) {
    buffers_.resize(static_cast<size_t>(count) * kBufferBytes);
    const absl::Status provided = ring_->ProvideBuffers(buffers_.data(), kBufferBytes, count);
    ASSERT_TRUE(provided.ok()) << provided;
  }
  std::string BytesOf(const Completion& completion) const {
    return buffers_.substr(static_cast<size_t>(completion.buffer_id) * kBufferBytes,
                           static_cast<size_t>(completion.result.bytes()));
  }
  // The next completion, within five seconds.
  Completion Next() {
    const auto deadline = steady_clock::now() + milliseconds(5000);
    while (pending_.empty() && steady_clock::now() < deadline) {
      Completion batch[16];
      const size_t count = ring_->SubmitAndReap(absl::MakeSpan(batch), 100 * kMs);
      pending_.insert(pending_.end(), batch, batch + count);
    }
    EXPECT_FALSE(pending_.empty()) << "no completion";
    if (pending_.empty()) return Completion{};
    const Completion next = pending_.front();
    pending_.erase(pending_.begin());
    return next;
  }
  size_t CountWithin(int64_t wait_ns) {
    Completion batch[16];
    return ring_->SubmitAndReap(absl::MakeSpan(batch), wait_ns);
  }

  std::string buffers_;
  std::unique_ptr<Ring> ring_;
  std::vector<Completion> pending_;
};

INSTANTIATE_TEST_SUITE_P(Rungs, UringRingTest, ::testing::ValuesIn(kRungs), RungName);

TEST_P(UringRingTest, EchoesThroughProvidedBuffers) {
  const TcpPair pair;
  Provide(8);
  ring_->RecvProvided(kRecv, pair.server.get());
  for (int round = 0; round < 50; ++round) {
    const std::string message = "message " + std::to_string(round);
    pair.ClientSends(message);
    const Completion received = Next();
    ASSERT_EQ(received.token, kRecv);
    ASSERT_NE(received.buffer_id, kNoBuffer);
    EXPECT_EQ(BytesOf(received), message);
    std::string echo = BytesOf(received);
    iovec parts[2] = {{echo.data(), 3}, {echo.data() + 3, echo.size() - 3}};
    msghdr header = {};
    header.msg_iov = parts;
    header.msg_iovlen = 2;
    ring_->SendMessage(kSend, pair.server.get(), &header, false);
    ring_->ReturnBuffer(received.buffer_id);
    if (!received.more) ring_->RecvProvided(kRecv, pair.server.get());
    const Completion sent = Next();
    EXPECT_EQ(sent.token, kSend);
    EXPECT_EQ(sent.result, IoResult::Bytes(static_cast<int32_t>(message.size())));
    EXPECT_EQ(pair.ClientReads(message.size()), message);
  }
  EXPECT_EQ(ring_->stats().receive_arms, ring_->recv_is_multishot() ? 1u : 51u);
}

TEST_P(UringRingTest, MultishotIsWhatTheFeaturesSay) {
  EXPECT_EQ(ring_->recv_is_multishot(), FeaturesOf(GetParam()).Has(Feature::kMultishotRecv));
}

TEST_P(UringRingTest, OneReceiveTakesOneBuffer) {
  const TcpPair pair;
  Provide(4);
  pair.ClientSends(std::string(2 * kBufferBytes, 'a'));
  ring_->RecvProvidedOnce(kRecv, pair.server.get());
  const Completion completion = Next();
  EXPECT_EQ(completion.token, kRecv);
  EXPECT_EQ(completion.result, IoResult::Bytes(kBufferBytes));
  EXPECT_FALSE(completion.more);
  Completion second;
  EXPECT_EQ(ring_->SubmitAndReap(absl::MakeSpan(&second, 1), 10'000'000), 0u);
}

TEST_P(UringRingTest, AnEndOfStreamEndsTheReceive) {
  TcpPair pair;
  Provide(4);
  ring_->RecvProvided(kRecv, pair.server.get());
  pair.client.Reset();
  const Completion end = Next();
  EXPECT_EQ(end.token, kRecv);
  EXPECT_EQ(end.result, IoResult::Bytes(0));
  EXPECT_FALSE(end.more);
}

TEST_P(UringRingTest, ReportsNoBuffersAndGoesOnWhenTheyComeBack) {
  const TcpPair pair;
  Provide(2);
  std::string sent;
  for (int i = 0; i < 4; ++i) sent += std::string(kBufferBytes, static_cast<char>('a' + i));
  pair.ClientSends(sent);
  ring_->RecvProvided(kRecv, pair.server.get());
  std::string received;
  std::vector<uint32_t> held;
  for (;;) {
    const Completion completion = Next();
    ASSERT_EQ(completion.token, kRecv);
    if (completion.result == IoResult::Error(ENOBUFS)) {
      EXPECT_FALSE(completion.more);
      break;
    }
    ASSERT_GT(completion.result.bytes(), 0);
    received += BytesOf(completion);
    held.push_back(completion.buffer_id);
    ASSERT_LE(held.size(), 2u) << "more buffers than were given";
    if (!completion.more) ring_->RecvProvided(kRecv, pair.server.get());
  }
  EXPECT_EQ(held.size(), 2u);
  EXPECT_EQ(ring_->stats().no_buffers, 1u);
  for (const uint32_t id : held) ring_->ReturnBuffer(id);
  ring_->RecvProvided(kRecv, pair.server.get());
  while (received.size() < sent.size()) {
    const Completion completion = Next();
    if (completion.result == IoResult::Error(ENOBUFS)) {
      ring_->RecvProvided(kRecv, pair.server.get());
      continue;
    }
    ASSERT_GT(completion.result.bytes(), 0);
    received += BytesOf(completion);
    ring_->ReturnBuffer(completion.buffer_id);
    if (!completion.more) ring_->RecvProvided(kRecv, pair.server.get());
  }
  EXPECT_EQ(received, sent);
}

TEST_P(UringRingTest, EveryReturnedBufferIsUsedAgain) {
  const TcpPair pair;
  Provide(4);
  ring_->RecvProvided(kRecv, pair.server.get());
  std::set<uint32_t> seen;
  for (int i = 0; i < 64; ++i) {
    pair.ClientSends("x");
    const Completion completion = Next();
    ASSERT_EQ(completion.result, IoResult::Bytes(1));
    seen.insert(completion.buffer_id);
    ring_->ReturnBuffer(completion.buffer_id);
    if (!completion.more) ring_->RecvProvided(kRecv, pair.server.get());
  }
  EXPECT_EQ(seen.size(), 4u);
}

TEST_P(UringRingTest, CancelEndsAReceiveThatWaits) {
  const TcpPair pair;
  Provide(4);
  ring_->RecvProvided(kRecv, pair.server.get());
  EXPECT_EQ(CountWithin(10 * kMs), 0u);
  ring_->Cancel(kCancel, kRecv);
  bool cancelled = false;
  bool answered = false;
  while (!cancelled || !answered) {
    const Completion completion = Next();
    if (completion.token == kRecv) {
      EXPECT_TRUE(completion.result.cancelled());
      EXPECT_FALSE(completion.more);
      cancelled = true;
    } else {
      ASSERT_EQ(completion.token, kCancel);
      EXPECT_TRUE(completion.result.ok());
      answered = true;
    }
  }
}

TEST_P(UringRingTest, CancelOfAnotherGenerationFindsNothing) {
  const TcpPair pair;
  Provide(4);
  ring_->RecvProvided(kRecv, pair.server.get());
  ring_->Cancel(kCancel, Token{OpKind::kRecv, kRecv.slot, kRecv.generation + 1});
  const Completion answer = Next();
  EXPECT_EQ(answer.token, kCancel);
  EXPECT_EQ(answer.result, IoResult::Error(ENOENT));
  pair.ClientSends("still alive");
  EXPECT_EQ(BytesOf(Next()), "still alive");
}

TEST_P(UringRingTest, ReceivesStraightIntoACallersRange) {
  const TcpPair pair;
  std::string range(100, '-');
  ring_->RecvInto(kRecv, pair.server.get(), range.data() + 10, 50);
  pair.ClientSends("hello");
  const Completion completion = Next();
  EXPECT_EQ(completion.result, IoResult::Bytes(5));
  EXPECT_EQ(completion.buffer_id, kNoBuffer);
  EXPECT_EQ(range.substr(9, 7), "-hello-");
}

TEST_P(UringRingTest, MultishotAcceptTakesEveryConnection) {
  const TcpListener listener;
  ring_->AcceptMultishot(kAccept, listener.fd.get());
  std::vector<UniqueFd> clients;
  for (int i = 0; i < 5; ++i) {
    clients.push_back(listener.Connect());
    const Completion completion = Next();
    ASSERT_EQ(completion.token, kAccept);
    ASSERT_TRUE(completion.result.ok());
    const int accepted = completion.result.bytes();
    EXPECT_NE(fcntl(accepted, F_GETFL) & O_NONBLOCK, 0);
    EXPECT_NE(fcntl(accepted, F_GETFD) & FD_CLOEXEC, 0);
    EXPECT_TRUE(completion.more);
    ring_->Close(accepted);
  }
  EXPECT_EQ(ring_->stats().accept_arms, 1u);
}

TEST_P(UringRingTest, OneShotAcceptTakesOneConnection) {
  const TcpListener listener;
  ring_->AcceptOnce(kAccept, listener.fd.get());
  const UniqueFd first = listener.Connect();
  const UniqueFd second = listener.Connect();
  const Completion completion = Next();
  ASSERT_TRUE(completion.result.ok());
  EXPECT_FALSE(completion.more);
  ring_->Close(completion.result.bytes());
  EXPECT_EQ(CountWithin(20 * kMs), 0u);
}

TEST_P(UringRingTest, ConnectsAndNamesItsPeer) {
  const TcpListener listener;
  const UniqueFd client(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  ring_->Connect(Token{OpKind::kConnect, 1, 1}, client.get(),
                 reinterpret_cast<const sockaddr*>(&listener.address), sizeof(listener.address));
  EXPECT_EQ(Next().result, IoResult::Bytes(0));
  sockaddr_storage peer = {};
  socklen_t size = sizeof(peer);
  EXPECT_TRUE(ring_->PeerName(client.get(), &peer, &size).ok());
  EXPECT_EQ(reinterpret_cast<sockaddr_in*>(&peer)->sin_port, listener.address.sin_port);
}

TEST_P(UringRingTest, PollTellsWhenASocketIsReadable) {
  const TcpPair pair;
  ring_->Poll(kPoll, pair.server.get(), POLLIN);
  EXPECT_EQ(CountWithin(10 * kMs), 0u);
  pair.ClientSends("x");
  const Completion completion = Next();
  EXPECT_EQ(completion.token, kPoll);
  EXPECT_NE(completion.result.bytes() & POLLIN, 0);
}

TEST_P(UringRingTest, ZeroCopySendFreesItsBytesAtTheNotification) {
  if (!ring_->send_zero_copy_available()) GTEST_SKIP();
  const TcpPair pair;
  const std::string bytes(8192, 'z');
  ring_->SendZeroCopy(Token{OpKind::kSendZeroCopy, 1, 1}, pair.server.get(), bytes.data(),
                      bytes.size(), -1, false);
  const Completion result = Next();
  EXPECT_EQ(result.result, IoResult::Bytes(8192));
  EXPECT_TRUE(result.more);
  EXPECT_FALSE(result.notification);
  EXPECT_EQ(pair.ClientReads(8192), bytes);
  const Completion freed = Next();
  EXPECT_TRUE(freed.notification);
  EXPECT_FALSE(freed.more);
  EXPECT_TRUE(freed.result.ok());
  // Loopback always copies; without the report nobody knows.
  EXPECT_EQ(freed.zero_copy_copied, FeaturesOf(GetParam()).Has(Feature::kSendZeroCopyReport));
}

TEST_P(UringRingTest, ZeroCopySendGathers) {
  if (!ring_->zero_copy_is_reported()) GTEST_SKIP();
  const TcpPair pair;
  std::string head(100, 'h');
  std::string body(8192, 'b');
  iovec parts[] = {{head.data(), head.size()}, {body.data(), body.size()}};
  msghdr message = {};
  message.msg_iov = parts;
  message.msg_iovlen = 2;
  ring_->SendMessageZeroCopy(Token{OpKind::kSendZeroCopy, 1, 1}, pair.server.get(), &message,
                             false);
  const Completion result = Next();
  EXPECT_EQ(result.result, IoResult::Bytes(8292));
  EXPECT_TRUE(result.more);
  EXPECT_EQ(pair.ClientReads(8292), head + body);
  const Completion freed = Next();
  EXPECT_TRUE(freed.notification);
  EXPECT_TRUE(freed.zero_copy_copied);
}

TEST_P(UringRingTest, ZeroCopySendTakesRegisteredBuffers) {
  if (!ring_->send_zero_copy_available()) GTEST_SKIP();
  const TcpPair pair;
  std::string bytes(16384, 'r');
  const iovec region = {bytes.data(), bytes.size()};
  ASSERT_TRUE(ring_->RegisterBuffers(absl::MakeConstSpan(&region, 1)).ok());
  ring_->SendZeroCopy(Token{OpKind::kSendZeroCopy, 1, 1}, pair.server.get(), bytes.data() + 100,
                      4096, 0, false);
  EXPECT_EQ(Next().result, IoResult::Bytes(4096));
  EXPECT_TRUE(Next().notification);
  EXPECT_EQ(pair.ClientReads(4096), bytes.substr(100, 4096));
}

TEST_P(UringRingTest, RegisteredBuffersCanBeHidden) {
  std::string bytes(4096, 'r');
  const iovec region = {bytes.data(), bytes.size()};
  EXPECT_EQ(ring_->RegisterBuffers(absl::MakeConstSpan(&region, 1)).ok(),
            FeaturesOf(GetParam()).Has(Feature::kRegisteredBuffers));
}

TEST_P(UringRingTest, SendMoreHoldsTheHeaderForTheFile) {
  const TemporaryDirectory directory;
  const TcpPair pair;
  const FileRef file = NewFile(directory, "0123456789");
  const std::string header = "header:";
  ring_->Send(kSend, pair.server.get(), header.data(), header.size(), true);
  EXPECT_EQ(Next().result, IoResult::Bytes(7));
  EXPECT_EQ(ring_->SendFileNow(pair.server.get(), *file, 2, 5, false), IoResult::Bytes(5));
  EXPECT_EQ(pair.ClientReads(12), "header:23456");
}

TEST_P(UringRingTest, SendFileStopsWhenTheSocketIsFull) {
  const TemporaryDirectory directory;
  const TcpPair pair;
  const FileRef file = NewFile(directory, std::string(1 << 20, 'f'));
  int64_t sent = 0;
  IoResult result;
  for (int i = 0; i < 1000; ++i) {
    result = ring_->SendFileNow(pair.server.get(), *file, 0, 1 << 20, false);
    if (!result.ok()) break;
    sent += result.bytes();
  }
  EXPECT_TRUE(result.would_block());
  EXPECT_GT(sent, 0);
}

TEST_P(UringRingTest, SendFileBeyondTheEndIsZero) {
  const TemporaryDirectory directory;
  const TcpPair pair;
  const FileRef file = NewFile(directory, "short");
  EXPECT_EQ(ring_->SendFileNow(pair.server.get(), *file, 5, 10, false), IoResult::Bytes(0));
}

TEST_P(UringRingTest, SplicesAFileThroughAPipeToASocket) {
  const TemporaryDirectory directory;
  const TcpPair pair;
  std::string content(40'000, '\0');
  for (size_t i = 0; i < content.size(); ++i) content[i] = static_cast<char>(i * 31 >> 3);
  const FileRef file = NewFile(directory, content);
  const absl::StatusOr<PipeFds> pipe = ring_->OpenPipe(64 * 1024);
  ASSERT_TRUE(pipe.ok()) << pipe.status();
  EXPECT_GE(pipe->capacity_bytes, 4096u);
  std::string received;
  int64_t position = 1'000;
  while (received.size() < 30'000) {
    const size_t left = 30'000 - received.size();
    ring_->SpliceFileToPipe(Token{OpKind::kSplice, 1, 1}, *file, position, *pipe, left);
    const Completion spliced = Next();
    ASSERT_GT(spliced.result.bytes(), 0) << spliced.result.error();
    position += spliced.result.bytes();
    int32_t in_pipe = spliced.result.bytes();
    while (in_pipe > 0) {
      const IoResult moved = ring_->SplicePipeToSocketNow(*pipe, pair.server.get(),
                                                          static_cast<size_t>(in_pipe), false);
      ASSERT_GT(moved.bytes(), 0) << moved.error();
      in_pipe -= moved.bytes();
      received += pair.ClientReads(static_cast<size_t>(moved.bytes()));
    }
  }
  EXPECT_EQ(received, content.substr(1'000, 30'000));
  EXPECT_TRUE(ring_->SplicePipeToSocketNow(*pipe, pair.server.get(), 1, false).would_block());
  ring_->ClosePipe(*pipe);
}

TEST_P(UringRingTest, WritesSyncsAndReadsAFile) {
  const TemporaryDirectory directory;
  const FileRef file = NewFile(directory, "");
  std::string first = "one";
  std::string second = "two";
  const iovec written[2] = {{first.data(), 3}, {second.data(), 3}};
  ring_->WriteFile(kFile, *file, 10, written, 2);
  EXPECT_EQ(Next().result, IoResult::Bytes(6));
  ring_->SyncFile(kFile, *file);
  EXPECT_EQ(Next().result, IoResult::Bytes(0));
  std::string back(16, '.');
  const iovec read = {back.data(), back.size()};
  ring_->ReadFile(kFile, *file, 9, &read, 1);
  EXPECT_EQ(Next().result, IoResult::Bytes(7));
  EXPECT_EQ(back.substr(0, 7), std::string("\0onetwo", 7));
}

TEST_P(UringRingTest, ShutdownOfTheWriteSideIsAnEndOfStreamAtThePeer) {
  const TcpPair pair;
  ring_->Shutdown(pair.server.get(), true);
  char byte;
  EXPECT_EQ(recv(pair.client.get(), &byte, 1, 0), 0);
  pair.ClientSends("still open this way");
}

TEST_P(UringRingTest, ResetOnCloseIsAResetAtThePeer) {
  TcpPair pair;
  ring_->SetResetOnClose(pair.server.get());
  ring_->Close(pair.server.Release());
  char byte;
  EXPECT_EQ(recv(pair.client.get(), &byte, 1, 0), -1);
  EXPECT_EQ(errno, ECONNRESET);
}

TEST_P(UringRingTest, SetsSocketOptions) {
  const TcpPair pair;
  const int on = 1;
  EXPECT_TRUE(
      ring_->SetSocketOption(pair.server.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)).ok());
  int value = 0;
  socklen_t size = sizeof(value);
  getsockopt(pair.server.get(), IPPROTO_TCP, TCP_NODELAY, &value, &size);
  EXPECT_EQ(value, 1);
  EXPECT_EQ(ring_->SetSocketOption(-1, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)),
            IoResult::Error(EBADF));
}

TEST_P(UringRingTest, AWaitEndsAfterItsTime) {
  const auto start = steady_clock::now();
  EXPECT_EQ(CountWithin(30 * kMs), 0u);
  EXPECT_GE(steady_clock::now() - start, milliseconds(29));
}

TEST_P(UringRingTest, AWakeFromAnotherThreadEndsAnUnlimitedWait) {
  std::thread waker([this] {
    std::this_thread::sleep_for(milliseconds(20));
    ring_->Wake();
  });
  EXPECT_EQ(CountWithin(-1), 0u);
  waker.join();
}

TEST_P(UringRingTest, WakesAgainAndAgain) {
  for (int i = 0; i < 200; ++i) {
    std::thread waker([this] { ring_->Wake(); });
    EXPECT_EQ(CountWithin(-1), 0u);
    waker.join();
    // A wake-up that arrives as a wait ends leaves nothing behind that hangs.
  }
  EXPECT_GE(ring_->stats().wakes, 1u);
}

TEST_P(UringRingTest, AWakeBetweenTwoWaitsEndsTheNextOne) {
  std::thread waker([this] { ring_->Wake(); });
  waker.join();
  // Turns that do not wait may see the wake-up, and must not use it up.
  for (int i = 0; i < 3; ++i) CountWithin(0);
  EXPECT_EQ(CountWithin(-1), 0u);
}

TEST_P(UringRingTest, AWakeBeforeAttachEndsTheFirstWait) {
  const std::unique_ptr<Ring> ring = MakeRing(GetParam());
  ring->Wake();
  std::thread owner([&ring] {
    ASSERT_TRUE(ring->Attach().ok());
    Completion completion;
    EXPECT_EQ(ring->SubmitAndReap(absl::MakeSpan(&completion, 1), -1), 0u);
  });
  owner.join();
}

TEST_P(UringRingTest, AnyThreadMayAttach) {
  const std::unique_ptr<Ring> ring = MakeRing(GetParam());
  const TcpPair pair;
  std::thread owner([&] {
    ASSERT_TRUE(ring->Attach().ok());
    ring->Send(kSend, pair.server.get(), "hi", 2, false);
    Completion completion;
    while (ring->SubmitAndReap(absl::MakeSpan(&completion, 1), 100 * kMs) == 0) {
    }
    EXPECT_EQ(completion.result, IoResult::Bytes(2));
  });
  owner.join();
  EXPECT_EQ(pair.ClientReads(2), "hi");
}

TEST_P(UringRingTest, CompletionsThatDoNotFitComeWithTheNextCall) {
  const TemporaryDirectory directory;
  const FileRef file = NewFile(directory, "");
  for (uint32_t i = 0; i < 10; ++i) ring_->SyncFile(Token{OpKind::kFile, i, 0}, *file);
  std::set<uint32_t> slots;
  const auto deadline = steady_clock::now() + milliseconds(5000);
  while (slots.size() < 10 && steady_clock::now() < deadline) {
    Completion two[2];
    const size_t count = ring_->SubmitAndReap(absl::MakeSpan(two), 100 * kMs);
    ASSERT_LE(count, 2u);
    for (size_t i = 0; i < count; ++i) slots.insert(two[i].token.slot);
  }
  EXPECT_EQ(slots.size(), 10u);
}

TEST_P(UringRingTest, AFullSubmissionQueueIsFlushedByTheCallThatNeedsRoom) {
  RingOptions options;
  options.submission_entries = 4;
  options.completion_entries = 16;
  const std::unique_ptr<Ring> ring = MakeRing(GetParam(), options);
  ASSERT_TRUE(ring->Attach().ok());
  const TemporaryDirectory directory;
  const FileRef file = NewFile(directory, "content");
  constexpr uint32_t kOperations = 300;
  std::vector<std::string> into(kOperations, std::string(7, '.'));
  std::vector<iovec> parts(kOperations);
  // Far more than both queues hold, and nothing is reaped meanwhile.
  for (uint32_t i = 0; i < kOperations; ++i) {
    parts[i] = {into[i].data(), into[i].size()};
    ring->ReadFile(Token{OpKind::kFile, i, 0}, *file, 0, &parts[i], 1);
  }
  std::set<uint32_t> slots;
  const auto deadline = steady_clock::now() + milliseconds(5000);
  while (slots.size() < kOperations && steady_clock::now() < deadline) {
    Completion batch[8];
    const size_t count = ring->SubmitAndReap(absl::MakeSpan(batch), 100 * kMs);
    for (size_t i = 0; i < count; ++i) {
      EXPECT_EQ(batch[i].result, IoResult::Bytes(7));
      slots.insert(batch[i].token.slot);
    }
  }
  EXPECT_EQ(slots.size(), kOperations);
  EXPECT_TRUE(std::all_of(into.begin(), into.end(),
                          [](const std::string& bytes) { return bytes == "content"; }));
  EXPECT_GT(ring->stats().full_submissions, 0u);
}

TEST_P(UringRingTest, ProvidesBuffersOnceAndAPowerOfTwo) {
  std::string memory(4096, '\0');
  EXPECT_FALSE(ring_->ProvideBuffers(memory.data(), 64, 3).ok());
  EXPECT_FALSE(ring_->ProvideBuffers(memory.data(), 64, 0).ok());
  EXPECT_TRUE(ring_->ProvideBuffers(memory.data(), 64, 4).ok());
  EXPECT_FALSE(ring_->ProvideBuffers(memory.data(), 64, 4).ok());
}

TEST_P(UringRingTest, BatchesWaitsOnlyUnderLoad) {
  const bool has_min_wait = FeaturesOf(GetParam()).Has(Feature::kMinWait);
  const TcpPair pair;
  Provide(64);
  // One completion per wait: never batched.
  for (int i = 0; i < 20; ++i) {
    ring_->RecvInto(kRecv, pair.server.get(), buffers_.data(), 1);
    pair.ClientSends("x");
    Next();
  }
  EXPECT_EQ(ring_->stats().batched_waits, 0u);
  // Many per wait: batched where the kernel can.
  std::vector<std::unique_ptr<TcpPair>> pairs;
  for (int i = 0; i < 16; ++i) pairs.push_back(std::make_unique<TcpPair>());
  for (int round = 0; round < 30; ++round) {
    for (uint32_t i = 0; i < 16; ++i) {
      pairs[i]->ClientSends("x");
      ring_->RecvInto(Token{OpKind::kRecv, i, 0}, pairs[i]->server.get(), buffers_.data() + i, 1);
    }
    for (int i = 0; i < 16; ++i) Next();
  }
  EXPECT_EQ(ring_->stats().batched_waits > 0, has_min_wait);
  // One straggler is still answered without delay beyond the minimum wait.
  ring_->RecvInto(kRecv, pair.server.get(), buffers_.data(), 1);
  pair.ClientSends("x");
  EXPECT_EQ(Next().token, kRecv);
}

}  // namespace
}  // namespace gyre::uring
