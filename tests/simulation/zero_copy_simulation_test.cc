// Answers that leave by zero copy, to peers that read slowly, stop reading, end
// their side early or go away. Notifications come when the peer has taken the bytes
// and some time after, in any order; sends are short; some are reported as copied.
// The slab is small, so that bytes released too early are written again, which the
// ring notices.
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/endian.h"
#include "glog/logging.h"
#include "gtest/gtest.h"
#include "tests/simulation/sim_run.h"
#include "tests/simulation/sim_seeds.h"
#include "tests/simulation/sim_server.h"

namespace gyre::sim {
namespace {

constexpr uint16_t kPort = 9092;
constexpr size_t kRequestBytes = 8;

char AnswerByte(uint32_t id, size_t at) { return static_cast<char>(id * 31 + at * 7 + at / 251); }

// A request asks for `size` bytes of the answer `id`.
class AnswerHandler final : public RequestHandler {
 public:
  AnswerHandler(uint64_t seed, SimServer*& server) : random_(seed), server_(server) {}

  void Start(RequestPtr request) override {
    const absl::string_view frame = request->frame();
    const auto id = static_cast<uint32_t>(LoadBigEndian<int32_t>(frame.data()));
    const auto size_bytes = static_cast<uint32_t>(LoadBigEndian<int32_t>(frame.data() + 4));
    Buffer head = server_->response_buffers().Allocate(4);
    StoreBigEndian<int32_t>(head.data(), static_cast<int32_t>(size_bytes));
    NetworkSend send(std::move(head));
    uint32_t done = 0;
    while (done < size_bytes) {
      const auto part_bytes =
          static_cast<uint32_t>(1 + random_.Below(random_.OneIn(2) ? size_bytes - done : 500));
      Buffer part = server_->response_buffers().Allocate(std::min(part_bytes, size_bytes - done));
      for (uint32_t i = 0; i < part.size_bytes(); ++i) {
        part.data()[i] = AnswerByte(id, done + i);
      }
      done += part.size_bytes();
      send.Append(std::move(part));
    }
    request.Reply(std::move(send));
  }
  bool RunsInline(const Request&) const override { return true; }

 private:
  Random random_;
  SimServer*& server_;
};

class Peer {
 public:
  enum class Manner { kReads, kStopsReading, kGoesAway };

  Peer(uint64_t seed, uint32_t first_id, Manner manner, SimNetwork& network)
      : random_(seed), next_id_(first_id), manner_(manner), network_(network) {
    fd_ = network_.Connect(kPort);
  }

  // A peer that stopped reading stays, with what it was sent.
  bool done() const { return fd_ < 0 || (manner_ == Manner::kStopsReading && answered_ > 0); }
  int answered() const { return answered_; }
  bool Step() {
    if (fd_ < 0) return false;
    const bool asked = asked_ < kRequests && Ask();
    if (asked_ == kRequests && half_closes_ && !half_closed_) {
      half_closed_ = true;
      network_.Shutdown(fd_, /*write_side_only=*/true);
    }
    if (manner_ == Manner::kGoesAway && random_.OneIn(60)) {
      if (random_.OneIn(2)) network_.SetResetOnClose(fd_);
      network_.Close(fd_);
      fd_ = -1;
      return true;
    }
    if (manner_ == Manner::kStopsReading && answered_ > 0) return asked;
    return Read() || asked;
  }
  void Close() {
    if (fd_ >= 0) network_.Close(fd_);
    fd_ = -1;
  }

 private:
  static constexpr int kRequests = 12;

  bool Ask() {
    if (outgoing_.empty()) {
      const auto size = static_cast<int32_t>(random_.Below(random_.OneIn(3) ? 9'000 : 1'500));
      std::string request(4 + kRequestBytes, '\0');
      StoreBigEndian<int32_t>(request.data(), kRequestBytes);
      StoreBigEndian<int32_t>(request.data() + 4, static_cast<int32_t>(next_id_));
      StoreBigEndian<int32_t>(request.data() + 8, size);
      outgoing_ = request;
      std::string answer(4, '\0');
      StoreBigEndian<int32_t>(answer.data(), size);
      for (size_t i = 0; i < static_cast<size_t>(size); ++i) {
        answer.push_back(AnswerByte(next_id_, i));
      }
      expected_ += answer;
      ends_.push_back(expected_.size());
      ++next_id_;
    }
    const IoResult sent = network_.Send(fd_, outgoing_);
    if (!sent.ok()) return false;
    outgoing_.erase(0, static_cast<size_t>(sent.bytes()));
    if (outgoing_.empty()) ++asked_;
    return true;
  }

  bool Read() {
    char chunk[900];
    const IoResult received = network_.Receive(fd_, chunk, 1 + random_.Below(sizeof(chunk)));
    if (received.would_block()) return false;
    if (received.bytes() == 0) {
      EXPECT_TRUE(received.ok() && taken_ == expected_.size())
          << "closed after " << taken_ << " of " << expected_.size();
      Close();
      return true;
    }
    const auto count = static_cast<size_t>(received.bytes());
    EXPECT_TRUE(absl::string_view(expected_).substr(taken_, count) ==
                absl::string_view(chunk, count))
        << "wrong bytes near " << taken_;
    taken_ += count;
    while (static_cast<size_t>(answered_) < ends_.size() &&
           ends_[static_cast<size_t>(answered_)] <= taken_) {
      ++answered_;
    }
    // After its own end it waits for the server's.
    if (answered_ == kRequests && !half_closed_) Close();
    return true;
  }

  Random random_;
  uint32_t next_id_;
  const Manner manner_;
  SimNetwork& network_;
  int fd_ = -1;
  int asked_ = 0;
  int answered_ = 0;
  const bool half_closes_ = random_.OneIn(2);
  bool half_closed_ = false;
  std::string outgoing_;
  std::string expected_;  // every answer so far, one after the other
  std::vector<size_t> ends_;
  size_t taken_ = 0;
};

struct Totals {
  int64_t sends = 0;
  int64_t copied = 0;
  int64_t resets = 0;
  int answered = 0;
};

void RunSeed(uint64_t seed, Totals* totals) {
  SimRun run(seed);
  Random& random = run.random;
  SimServerOptions options = SimServerOptions::Tight(random.Next());
  options.port = kPort;
  options.ring.zero_copy = true;
  options.ring.zero_copy_copied_one_in = random.Below(4);
  options.processor.connection.zero_copy_min_bytes = random.Between(1, 600);
  options.processor.connection.zero_copy_max_pinned_bytes = int64_t{8'192} << random.Below(6);
  // Longer than any run: peers that read get every byte.
  options.processor.zero_copy_close_timeout_ms = 3'600'000;
  SimServer* server_pointer = nullptr;
  AnswerHandler handler(random.Next(), server_pointer);
  SimServer server(random.Next(), options, run.clock, run.network);
  server_pointer = &server;
  server.Start(handler, run.scheduler);
  run.AddNetwork(3);

  std::vector<std::unique_ptr<Peer>> peers;
  for (uint32_t i = 0; i < 6; ++i) {
    const auto manner = i < 3 ? Peer::Manner::kReads : static_cast<Peer::Manner>(random.Below(3));
    peers.push_back(std::make_unique<Peer>(random.Next(), i * 1'000, manner, run.network));
    run.AddClient(peers.back().get());
  }
  EXPECT_TRUE(run.Serve(peers, 2'000'000)) << "peers hang: " << server.Leaks();
  // Those that stopped reading are still there, with whatever they pin.
  server.BeginStop(/*drain=*/true);
  run.scheduler.RunUntil([&] { return server.stopped(); }, 20'000);
  run.Stop(server, /*drain=*/false);
  EXPECT_EQ(server.Leaks(), "");
  EXPECT_EQ(server.Metric("network_zero_copy_pinned_bytes"), 0);
  for (const auto& peer : peers) totals->answered += peer->answered();
  totals->sends += server.Metric("network_zero_copy_sends_total");
  totals->copied += server.Metric("network_zero_copy_copied_total");
  totals->resets += server.Metric("network_zero_copy_resets_total");
}

TEST(ZeroCopySimulationTest, EveryByteIsRightAndEveryPinnedOneComesBack) {
  FLAGS_minloglevel = google::GLOG_ERROR;
  Totals totals;
  const uint64_t count = ForEachSeed(0, 100, [&](uint64_t seed) { RunSeed(seed, &totals); });
  std::printf("%d answers, %lld zero-copy sends, %lld copied, %lld resets\n", totals.answered,
              static_cast<long long>(totals.sends), static_cast<long long>(totals.copied),
              static_cast<long long>(totals.resets));
  if (count < 100) return;
  EXPECT_GT(totals.sends, 1'000);
  EXPECT_GT(totals.copied, 100);
  EXPECT_GT(totals.resets, 0);
}

}  // namespace
}  // namespace gyre::sim
