#include "tests/simulation/sim_ring.h"

#include <poll.h>

#include <cerrno>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "engine/fs/fault_injecting_file_system.h"
#include "engine/fs/file_io.h"
#include "engine/uring/file_ring.h"
#include "gtest/gtest.h"
#include "tests/simulation/sim_scheduler.h"

namespace gyre::sim {
namespace {

using uring::Completion;
using uring::OpKind;
using uring::Token;

constexpr Token kRecv = {OpKind::kRecv, 1, 7};
constexpr Token kSend = {OpKind::kSend, 1, 7};
constexpr Token kCancel = {OpKind::kCancel, 1, 7};
constexpr uint32_t kBufferBytes = 16;
constexpr int kSeeds = 200;

// One ring, one connection, one disk, under one seed.
struct World {
  explicit World(uint64_t seed, SimRing::Options options = {})
      : network(seed, {.socket_buffer_bytes = 64}), disk(seed), ring(seed, options, network) {
    network.Listen(9092);
    client = network.Connect(9092);
    server = network.Accept(SimNetwork::kFirstFd).bytes();
  }
  void Provide(uint32_t count) {
    memory.resize(static_cast<size_t>(count) * kBufferBytes);
    EXPECT_TRUE(ring.ProvideBuffers(memory.data(), kBufferBytes, count).ok());
  }
  // The next completion; the network moves meanwhile.
  Completion Next() {
    for (int i = 0; i < 10'000; ++i) {
      network.RunOnce();
      Completion completion;
      if (ring.SubmitAndReap(absl::MakeSpan(&completion, 1), -1) == 1) return completion;
    }
    ADD_FAILURE() << "no completion";
    return Completion{};
  }
  FileRef NewFile(const std::string& content) {
    const absl::StatusOr<FileRef> file = disk.Open("/f", OpenMode::kCreate);
    EXPECT_TRUE((*file)->WriteAll(0, content.data(), content.size()).ok());
    return *file;
  }

  SimNetwork network;
  FaultInjectingFileSystem disk;
  std::string memory;
  SimRing ring;
  int client;
  int server;
};

TEST(SimRingTest, AStreamArrivesWholeAndInOrder) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    SCOPED_TRACE(seed);
    World world(seed, {.multishot_receive = seed % 2 == 0});
    world.Provide(4);
    world.ring.RecvProvided(kRecv, world.server);
    std::string sent;
    for (int i = 0; i < 300; ++i) sent.push_back(static_cast<char>(i));
    std::string received;
    size_t offered = 0;
    while (received.size() < sent.size()) {
      if (offered < sent.size()) {
        offered += static_cast<size_t>(
            world.network.Send(world.client, absl::string_view(sent).substr(offered)).bytes());
      }
      const Completion completion = world.Next();
      if (completion.result == IoResult::Error(ENOBUFS)) {
        world.ring.RecvProvided(kRecv, world.server);
        continue;
      }
      ASSERT_GT(completion.result.bytes(), 0) << completion.result.error();
      received.append(world.memory, completion.buffer_id * kBufferBytes,
                      static_cast<size_t>(completion.result.bytes()));
      world.ring.ReturnBuffer(completion.buffer_id);
      if (!completion.more) world.ring.RecvProvided(kRecv, world.server);
    }
    EXPECT_EQ(received, sent);
  }
}

TEST(SimRingTest, WithoutBuffersAReceiveEndsAndTheBytesStay) {
  World world(1);
  world.Provide(1);
  world.network.Send(world.client, std::string(40, 'x'));
  world.ring.RecvProvided(kRecv, world.server);
  Completion completion = world.Next();
  const uint32_t held = completion.buffer_id;
  int32_t received = completion.result.bytes();
  if (!completion.more) world.ring.RecvProvided(kRecv, world.server);
  completion = world.Next();
  EXPECT_EQ(completion.result, IoResult::Error(ENOBUFS));
  EXPECT_FALSE(completion.more);
  world.ring.ReturnBuffer(held);
  world.ring.RecvProvided(kRecv, world.server);
  while (received < 40) {
    completion = world.Next();
    received += completion.result.bytes();
    if (completion.buffer_id != uring::kNoBuffer) {
      world.ring.ReturnBuffer(completion.buffer_id);
    }
    if (!completion.more) world.ring.RecvProvided(kRecv, world.server);
  }
  EXPECT_EQ(received, 40);
}

TEST(SimRingTest, ACancelledReceiveIsAnsweredOnceAndSoIsTheCancel) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    SCOPED_TRACE(seed);
    World world(seed);
    world.Provide(4);
    world.ring.RecvProvided(kRecv, world.server);
    world.network.Send(world.client, "racing with the cancel");
    world.ring.Cancel(kCancel, kRecv);
    bool retired = false;
    bool answered = false;
    while (!retired || !answered) {
      const Completion completion = world.Next();
      if (completion.token == kCancel) {
        EXPECT_FALSE(answered);
        answered = true;
      } else {
        EXPECT_FALSE(retired);
        retired = !completion.more;
      }
    }
    EXPECT_EQ(world.ring.in_flight(), 0u);
  }
}

TEST(SimRingTest, ASendIsFinishedOrShortAndNeverLost) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    SCOPED_TRACE(seed);
    World world(seed);
    const std::string bytes(200, 's');
    size_t sent = 0;
    std::string received;
    world.ring.Send(kSend, world.server, bytes.data(), bytes.size(), false);
    for (int i = 0; i < 10'000 && received.size() < bytes.size(); ++i) {
      world.network.RunOnce();
      Completion completion;
      if (world.ring.SubmitAndReap(absl::MakeSpan(&completion, 1), 0) == 1) {
        ASSERT_GT(completion.result.bytes(), 0);
        sent += static_cast<size_t>(completion.result.bytes());
        if (sent < bytes.size()) {
          world.ring.Send(kSend, world.server, bytes.data() + sent, bytes.size() - sent, false);
        }
      }
      char chunk[32];
      const IoResult read = world.network.Receive(world.client, chunk, sizeof(chunk));
      received.append(chunk, static_cast<size_t>(read.bytes()));
    }
    EXPECT_EQ(received, bytes);
  }
}

TEST(SimRingTest, ZeroCopyTellsWhenTheBytesAreFree) {
  World world(3);
  std::string bytes(50, 'z');
  world.ring.SendZeroCopy(kSend, world.server, bytes.data(), bytes.size(), -1, false);
  const Completion result = world.Next();
  EXPECT_EQ(result.result, IoResult::Bytes(50));
  EXPECT_TRUE(result.more);
  const Completion freed = world.Next();
  EXPECT_TRUE(freed.notification);
  EXPECT_FALSE(freed.more);
}

TEST(SimRingDeathTest, ZeroCopyBytesThatChangeTooEarlyAreNoticed) {
  World world(3);
  std::string bytes(50, 'z');
  world.ring.SendZeroCopy(kSend, world.server, bytes.data(), bytes.size(), -1, false);
  EXPECT_TRUE(world.Next().more);
  bytes[10] = 'X';
  EXPECT_DEATH(world.Next(), "before the notification");
}

TEST(SimRingDeathTest, ADescriptorClosedUnderAnOperationIsNoticed) {
  World world(3);
  world.ring.Poll(Token{OpKind::kPoll, 1, 1}, world.server, POLLIN);
  EXPECT_DEATH(world.ring.Close(world.server), "closed under an operation");
}

TEST(SimRingDeathTest, ABufferReturnedTwiceIsNoticed) {
  World world(3);
  world.Provide(2);
  EXPECT_DEATH(world.ring.ReturnBuffer(0), "returned twice");
}

TEST(SimRingTest, FilesGoThroughPipesAndDirectlyToSockets) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    SCOPED_TRACE(seed);
    World world(seed);
    const std::string content = "0123456789abcdefghij";
    const FileRef file = world.NewFile(content);
    const absl::StatusOr<uring::PipeFds> pipe = world.ring.OpenPipe(8);
    ASSERT_TRUE(pipe.ok());
    std::string received;
    int64_t position = 0;
    const auto pump = [&](IoResult moved) {
      ASSERT_TRUE(moved.ok() || moved.would_block()) << moved.error();
      while (world.network.RunOnce()) {
      }
      char chunk[64];
      const IoResult read = world.network.Receive(world.client, chunk, sizeof(chunk));
      received.append(chunk, static_cast<size_t>(read.bytes()));
    };
    while (position < 10) {
      world.ring.SpliceFileToPipe(Token{OpKind::kSplice, 1, 1}, *file, position, *pipe,
                                  static_cast<size_t>(10 - position));
      const IoResult spliced = world.Next().result;
      ASSERT_GT(spliced.bytes(), 0);
      ASSERT_LE(spliced.bytes(), 8);
      position += spliced.bytes();
      while (!world.network.PipeOf(pipe->read_fd).bytes.empty()) {
        pump(world.ring.SplicePipeToSocketNow(*pipe, world.server, 8, false));
      }
    }
    while (position < 20) {
      const IoResult sent = world.ring.SendFileNow(world.server, *file, position,
                                                   static_cast<size_t>(20 - position), false);
      position += sent.bytes();
      pump(sent);
    }
    while (received.size() < 20) pump(IoResult::Bytes(0));
    EXPECT_EQ(received, content);
    world.ring.ClosePipe(*pipe);
    EXPECT_EQ(world.network.open_pipes(), 0u);
  }
}

TEST(SimRingTest, ASyncIsDurableWhenItsCompletionComes) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    SCOPED_TRACE(seed);
    World world(seed);
    const FileRef file = world.NewFile("precious");
    ASSERT_TRUE(world.disk.SyncDirectory("/").ok());
    world.ring.SyncFile(Token{OpKind::kFile, 1, 1}, *file);
    EXPECT_EQ(world.Next().result, IoResult::Bytes(0));
    world.disk.PowerLoss(PowerLossMode::kDropUnsynced);
    EXPECT_EQ(*world.disk.ReadFile("/f"), "precious");
  }
}

TEST(SimRingTest, AFailedSyncIsAnError) {
  World world(1);
  const FileRef file = world.NewFile("x");
  world.disk.InjectFault({.operation = Fault::Operation::kSync});
  world.ring.SyncFile(Token{OpKind::kFile, 1, 1}, *file);
  EXPECT_EQ(world.Next().result, IoResult::Error(EIO));
}

TEST(SimRingTest, TheFileRingRunsOnIt) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    SCOPED_TRACE(seed);
    ManualClock clock;
    SimNetwork network(seed, {});
    FaultInjectingFileSystem disk(seed);
    const absl::StatusOr<FileRef> file = disk.Open("/f", OpenMode::kCreate);
    ASSERT_TRUE(file.ok());
    uring::FileRing file_ring(std::make_unique<SimRing>(seed, SimRing::Options{}, network), 2);
    file_ring.OnThreadStart();
    SimScheduler scheduler(seed, clock);
    scheduler.AddThread("log-io", file_ring, &file_ring);
    int done = 0;
    std::vector<FileOperation> operations(6);
    for (FileOperation& operation : operations) {
      operation.file = *file;
      operation.context = &done;
      operation.on_done = [](FileOperation* finished) {
        EXPECT_TRUE(finished->result.ok());
        ++*static_cast<int*>(finished->context);
      };
      file_ring.Submit(&operation);
    }
    EXPECT_TRUE(scheduler.RunUntil([&] { return done == 6; }, 10'000));
    EXPECT_EQ(disk.sync_count(), 6u);
    file_ring.OnThreadStop();
  }
}

TEST(SimRingTest, TheSameSeedIsTheSameRun) {
  const auto run = [](uint64_t seed) {
    World world(seed);
    world.Provide(4);
    world.ring.RecvProvided(kRecv, world.server);
    std::string trace;
    for (int i = 0; i < 20; ++i) {
      world.network.Send(world.client, "abcdefgh");
      const Completion completion = world.Next();
      trace += std::to_string(completion.result.res()) + (completion.more ? "+ " : ". ");
      if (completion.buffer_id != uring::kNoBuffer) {
        world.ring.ReturnBuffer(completion.buffer_id);
      }
      if (!completion.more) world.ring.RecvProvided(kRecv, world.server);
    }
    return trace;
  };
  EXPECT_EQ(run(11), run(11));
  EXPECT_NE(run(11), run(12));
}

}  // namespace
}  // namespace gyre::sim
