#include "engine/network/connection/response_sender.h"

#include <algorithm>
#include <cerrno>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/clock.h"
#include "engine/fs/fault_injecting_file_system.h"
#include "engine/memory/memory_pool.h"
#include "engine/memory/slab_pool.h"
#include "engine/metrics/metric_registry.h"
#include "engine/network/request/request_channel.h"
#include "gtest/gtest.h"
#include "tests/unit/network/fake_ring.h"

namespace gyre {
namespace {

using Submission = FakeRing::Submission;
using Kind = Submission::Kind;
using uring::Completion;

struct Sink final : ResponseSink {
  void EnqueueResponse(ConnectionRequest*) override {}
  void EnqueueThrottle(ThrottleSignal*) override {}
  void EnqueueRunStarted(RequestRun*) override {}
  void EnqueueRoom(int) override {}
};

std::unique_ptr<SlabPool> MakeSlab() {
  SlabPoolConfig config;
  config.classes = {{4096, 8}, {16 * 1024, 4}};
  config.huge_pages = false;
  return *SlabPool::Create(config);
}

// One connection, whose responses are sent by hand.
class ResponseSenderTest : public ::testing::Test, public ResponseSender::Host {
 protected:
  ResponseSenderTest() {
    options_.connection.zero_copy_min_bytes = 1000;
    options_.connection.zero_copy_max_pinned_bytes = 64'000;  // 8,000 for one connection
    slot_ = table_.Acquire();
    slot_->transport = &plaintext_;
    slot_->fd = 7;
  }
  ResponseSender& Sender() {
    if (sender_ == nullptr) {
      sender_ = std::make_unique<ResponseSender>(*this, ring_, *slab_, options_, metrics_);
      if (slab_registered_) sender_->OnSlabRegistered();
    }
    return *sender_;
  }
  // A response of one part for each size, in slab memory, each filled with a
  // letter of its own; it starts to leave when the sending side is free.
  void Respond(const std::vector<uint32_t>& sizes) {
    NetworkSend send;
    for (const uint32_t size_bytes : sizes) {
      Buffer part = slab_->Allocate(size_bytes);
      ASSERT_NE(part.block(), nullptr);
      std::fill_n(part.data(), size_bytes, letter_++);
      send.Append(std::move(part));
    }
    Respond(std::move(send));
  }
  void Respond(NetworkSend send) {
    requests_.push_back(std::make_unique<ConnectionRequest>());
    ConnectionRequest* request = requests_.back().get();
    request->Fill(&channel_, &sink_, &slot_->session, slot_->index, slot_->generation, Buffer(), 0,
                  1);
    request->MarkStarted(1);
    slot_->output.Push(request);
    RequestPtr(request).Reply(std::move(send));
    slot_->output.MarkReady(request);
    if (!slot_->connection.send_busy()) Sender().Continue(*slot_);
  }
  // The first completion of a zero-copy send.
  void Sent(const Submission& send, int32_t result, bool more = true) {
    Completion completion;
    completion.token = send.token;
    completion.result = IoResult::FromRes(result);
    completion.more = more;
    EXPECT_EQ(Sender().OnZeroCopy(completion), slot_);
  }
  void Notify(const Submission& send, bool copied = false) {
    Completion completion;
    completion.token = send.token;
    completion.notification = true;
    completion.zero_copy_copied = copied;
    EXPECT_EQ(Sender().OnZeroCopy(completion), slot_);
  }
  // Completes a plain send whole.
  void PlainSent(const Submission& send) {
    slot_->connection.OnOperationRetired();
    Completion completion;
    completion.token = send.token;
    completion.result = IoResult::Bytes(static_cast<int32_t>(send.bytes.size()));
    Sender().OnCompletion(*slot_, Operation::kSend, completion);
  }
  int64_t LentSlots() const {
    int64_t lent = 0;
    for (const SlabPool::ClassUsage& usage : slab_->Usage()) lent += usage.lent_count;
    return lent;
  }

  void OnFrontSent(ConnectionSlot& slot) override {
    slot.output.Pop()->ReleaseResponse();
    ++responses_sent_;
  }
  void OnCloseResponse(ConnectionSlot&) override {}
  void OnSendFailed(ConnectionSlot&, const char*) override { ++failures_; }
  void OnQuantumUsed(ConnectionSlot&) override {}

  MetricRegistry registry_;
  NetworkMetrics metrics_{&registry_};
  MemoryPool memory_{MemoryPool::kUnbounded};
  RequestChannel channel_{4, Clock::Real(), memory_};
  Sink sink_;
  PlaintextTransport plaintext_;
  const std::unique_ptr<SlabPool> slab_ = MakeSlab();
  FakeRing ring_;
  ProcessorOptions options_;
  Connection::Limits limits_;
  bool slab_registered_ = true;
  std::vector<std::unique_ptr<ConnectionRequest>> requests_;
  ConnectionTable table_{4, limits_};
  std::unique_ptr<ResponseSender> sender_;
  ConnectionSlot* slot_ = nullptr;
  char letter_ = 'a';
  int responses_sent_ = 0;
  int failures_ = 0;
};

TEST_F(ResponseSenderTest, AResponseBelowTheThresholdIsSentPlainly) {
  Respond({999});
  const Submission send = ring_.Take();
  EXPECT_EQ(send.kind, Kind::kSend);
  PlainSent(send);
  EXPECT_EQ(LentSlots(), 0);
  EXPECT_EQ(registry_.Value("network_zero_copy_sends_total"), 0);
}

TEST_F(ResponseSenderTest, ALargeOneGoesFromTheRegisteredSlabWithoutACopy) {
  Respond({1000});
  const Submission send = ring_.Take();
  EXPECT_EQ(send.kind, Kind::kSendZeroCopy);
  EXPECT_EQ(send.registered_index, 0);
  EXPECT_EQ(send.bytes, std::string(1000, 'a'));
  EXPECT_EQ(slot_->connection.operations(), 1);
  Sent(send, 1000);
  EXPECT_EQ(responses_sent_, 1);
  EXPECT_EQ(slot_->connection.operations(), 0);
  EXPECT_FALSE(slot_->connection.send_busy());
  // The kernel still reads it.
  EXPECT_EQ(LentSlots(), 1);
  EXPECT_EQ(slot_->connection.zero_copy_pending(), 1);
  EXPECT_EQ(registry_.Value("network_zero_copy_pinned_bytes"), 1000);
  Notify(send);
  EXPECT_EQ(LentSlots(), 0);
  EXPECT_EQ(slot_->connection.zero_copy_pending(), 0);
  EXPECT_EQ(registry_.Value("network_zero_copy_pinned_bytes"), 0);
}

TEST_F(ResponseSenderTest, AnUnregisteredSlabIsSentWithoutAFixedBuffer) {
  slab_registered_ = false;
  Respond({2000});
  const Submission send = ring_.Take();
  EXPECT_EQ(send.kind, Kind::kSendZeroCopy);
  EXPECT_EQ(send.registered_index, -1);
  Sent(send, 2000);
  Notify(send);
}

TEST_F(ResponseSenderTest, SeveralPartsAreGathered) {
  Respond({10, 2000});
  const Submission send = ring_.Take();
  EXPECT_EQ(send.kind, Kind::kSendMessageZeroCopy);
  EXPECT_EQ(send.bytes, std::string(10, 'a') + std::string(2000, 'b'));
  Sent(send, 2010);
  EXPECT_EQ(LentSlots(), 2);
  Notify(send);
  EXPECT_EQ(LentSlots(), 0);
}

TEST_F(ResponseSenderTest, OfThousandsOfSmallSlicesFewAreInMemoryAtATime) {
  constexpr int kSlices = 3'000;
  constexpr int kSliceBytes = 2'000;
  options_.connection.zero_copy_min_bytes = -1;
  FaultInjectingFileSystem disk(1);
  const FileRef file = *disk.Open("/file", OpenMode::kCreate);
  std::string content;
  for (int i = 0; i < kSlices; ++i) content += std::string(kSliceBytes, static_cast<char>(i * 7));
  ASSERT_TRUE(file->WriteAll(0, content.data(), content.size()).ok());
  NetworkSend response;
  std::string expected;
  for (int i = 0; i < kSlices; ++i) {
    const std::string head = absl::StrCat("partition ", i, ":");
    response.Append(Buffer::CopyOf(head));
    response.Append(FileSlice{file, int64_t{i} * kSliceBytes, kSliceBytes});
    expected += head + content.substr(static_cast<size_t>(i) * kSliceBytes, kSliceBytes);
  }
  const int64_t heads_bytes = response.memory_bytes();
  Respond(std::move(response));
  std::string sent;
  int64_t most_bytes = 0;
  while (!ring_.submissions.empty()) {
    most_bytes = std::max(most_bytes, requests_[0]->response().memory_bytes());
    const Submission send = ring_.Take();
    sent += send.bytes;
    PlainSent(send);
  }
  EXPECT_TRUE(sent == expected) << sent.size();
  EXPECT_LE(most_bytes, heads_bytes + kGatherParts * int64_t{kSliceBytes});
  EXPECT_EQ(responses_sent_, 1);
}

TEST_F(ResponseSenderTest, TheNextSendDoesNotWaitForTheNotification) {
  Respond({1000});
  Respond({1001});
  const Submission first = ring_.Take();
  Sent(first, 1000);
  const Submission second = ring_.Take();
  EXPECT_EQ(second.bytes, std::string(1001, 'b'));
  Sent(second, 1001);
  EXPECT_EQ(responses_sent_, 2);
  EXPECT_EQ(slot_->connection.zero_copy_pending(), 2);
  // In whatever order.
  Notify(second);
  EXPECT_EQ(LentSlots(), 1);
  Notify(first);
  EXPECT_EQ(LentSlots(), 0);
}

TEST_F(ResponseSenderTest, AShortSendGoesOnWhereItEndedAndKeepsTheBytesUntilBothNotifications) {
  Respond({4000});
  const Submission first = ring_.Take();
  Sent(first, 1500);
  const Submission rest = ring_.Take();
  EXPECT_EQ(rest.kind, Kind::kSendZeroCopy);
  EXPECT_EQ(rest.bytes.size(), 2500u);
  Notify(first);
  EXPECT_EQ(LentSlots(), 1);
  Sent(rest, 2500);
  EXPECT_EQ(responses_sent_, 1);
  EXPECT_EQ(LentSlots(), 1);
  Notify(rest);
  EXPECT_EQ(LentSlots(), 0);
}

TEST_F(ResponseSenderTest, AConnectionOverItsShareOfPinnedBytesCopies) {
  Respond({4000});
  const Submission first = ring_.Take();
  Sent(first, 4000);
  Respond({4001});  // 8,001 together
  const Submission plain = ring_.Take();
  EXPECT_EQ(plain.kind, Kind::kSend);
  PlainSent(plain);
  Notify(first);
  Respond({4001});
  const Submission again = ring_.Take();
  EXPECT_EQ(again.kind, Kind::kSendZeroCopy);
  Sent(again, 4001);
  Notify(again);
}

TEST_F(ResponseSenderTest, WhatIsPinnedBeyondALoweredBoundIsTold) {
  Respond({4000});
  const Submission send = ring_.Take();
  EXPECT_EQ(Sender().zero_copy_excess_bytes(), 0);
  options_.connection.zero_copy_max_pinned_bytes = 1000;
  EXPECT_EQ(Sender().zero_copy_excess_bytes(), 3000);
  Sent(send, 4000);
  EXPECT_EQ(Sender().zero_copy_excess_bytes(), 3000);
  Notify(send);
  EXPECT_EQ(Sender().zero_copy_excess_bytes(), 0);
}

TEST_F(ResponseSenderTest, AConnectionWhoseBytesAreCopiedAnywayIsSwitchedOff) {
  for (int i = 0; i < ZeroCopySends::kMaxCopied; ++i) {
    Respond({1000});
    const Submission send = ring_.Take();
    ASSERT_EQ(send.kind, Kind::kSendZeroCopy) << i;
    Sent(send, 1000);
    Notify(send, /*copied=*/true);
  }
  Respond({1000});
  const Submission send = ring_.Take();
  EXPECT_EQ(send.kind, Kind::kSend);
  PlainSent(send);
  EXPECT_EQ(registry_.Value("network_zero_copy_copied_total"), ZeroCopySends::kMaxCopied);
}

TEST_F(ResponseSenderTest, CopiesNowAndThenDoNotSwitchItOff) {
  for (int i = 0; i < 4 * ZeroCopySends::kMaxCopied; ++i) {
    Respond({1000});
    const Submission send = ring_.Take();
    ASSERT_EQ(send.kind, Kind::kSendZeroCopy) << i;
    Sent(send, 1000);
    Notify(send, /*copied=*/i % 2 == 0);
  }
}

TEST_F(ResponseSenderTest, ARefusedZeroCopyIsSentPlainly) {
  for (const int error : {ENOMEM, EOPNOTSUPP, ENOBUFS}) {
    slot_->zero_copy_off = false;
    letter_ = 'x';
    Respond({1000});
    const Submission refused = ring_.Take();
    ASSERT_EQ(refused.kind, Kind::kSendZeroCopy);
    Sent(refused, -error, /*more=*/false);
    EXPECT_EQ(slot_->connection.zero_copy_pending(), 0);
    const Submission plain = ring_.Take();
    EXPECT_EQ(plain.kind, Kind::kSend);
    EXPECT_EQ(plain.bytes, std::string(1000, 'x'));
    PlainSent(plain);
    EXPECT_TRUE(slot_->zero_copy_off);
  }
  EXPECT_EQ(failures_, 0);
  EXPECT_EQ(LentSlots(), 0);
}

TEST_F(ResponseSenderTest, AFailedSendMayStillBeNotified) {
  Respond({1000});
  const Submission send = ring_.Take();
  Sent(send, -ECONNRESET, /*more=*/true);
  EXPECT_EQ(failures_, 1);
  EXPECT_EQ(slot_->connection.zero_copy_pending(), 1);
  slot_->output.Pop()->ReleaseResponse();
  EXPECT_EQ(LentSlots(), 1);
  Notify(send);
  EXPECT_EQ(LentSlots(), 0);
}

TEST_F(ResponseSenderTest, WithoutTheFeatureOrItsReportsNothingIsZeroCopy) {
  ring_.zero_copy_reported = false;
  Respond({4000});
  EXPECT_EQ(ring_.submissions.back().kind, Kind::kSend);
  PlainSent(ring_.Take());
}

TEST_F(ResponseSenderTest, CancelNamesTheSendInFlight) {
  Respond({1000});
  const Submission send = ring_.Take();
  Sender().CancelZeroCopy(*slot_);
  EXPECT_EQ(ring_.Take().target, send.token);
  Sent(send, 1000);
  Notify(send);
}

}  // namespace
}  // namespace gyre
