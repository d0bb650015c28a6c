#include "tests/simulation/sim_network.h"

#include <poll.h>

#include <cerrno>
#include <string>

#include "gtest/gtest.h"

namespace gyre::sim {
namespace {

class SimNetworkTest : public ::testing::Test {
 protected:
  SimNetworkTest() { Open(); }

  void Open() {
    client_ = network_.Connect(9092);
    ASSERT_GE(client_, 0);
    server_ = network_.Accept(listener_).bytes();
    ASSERT_GT(server_, 0);
  }
  void DeliverAll() {
    while (network_.RunOnce()) {
    }
  }
  std::string Read(int fd) {
    std::string bytes;
    char chunk[64];
    for (;;) {
      const IoResult result = network_.Receive(fd, chunk, sizeof(chunk));
      if (result.bytes() == 0) return bytes;
      bytes.append(chunk, static_cast<size_t>(result.bytes()));
    }
  }

  SimNetwork network_{1, {.socket_buffer_bytes = 100, .short_transfer_one_in = 0}};
  int listener_ = network_.Listen(9092);
  int client_ = -1;
  int server_ = -1;
};

TEST_F(SimNetworkTest, NobodyListensOnAnotherPort) {
  EXPECT_EQ(network_.Connect(1), -ECONNREFUSED);
  EXPECT_TRUE(network_.Accept(listener_).would_block());
}

TEST_F(SimNetworkTest, BytesArriveWhenTheWireIsStepped) {
  EXPECT_EQ(network_.Send(client_, "hello"), IoResult::Bytes(5));
  char byte;
  EXPECT_TRUE(network_.Receive(server_, &byte, 1).would_block());
  EXPECT_EQ(network_.PollEvents(server_) & POLLIN, 0u);
  EXPECT_TRUE(network_.RunOnce());
  EXPECT_NE(network_.PollEvents(server_) & POLLIN, 0u);
  EXPECT_EQ(Read(server_), "hello");
  EXPECT_FALSE(network_.RunOnce());
}

TEST_F(SimNetworkTest, FullBuffersPushBack) {
  EXPECT_EQ(network_.Send(client_, std::string(150, 'x')), IoResult::Bytes(100));
  EXPECT_TRUE(network_.Send(client_, "x").would_block());
  EXPECT_EQ(network_.PollEvents(client_) & POLLOUT, 0u);
  network_.RunOnce();
  EXPECT_EQ(network_.Send(client_, std::string(150, 'x')), IoResult::Bytes(100));
  EXPECT_FALSE(network_.RunOnce()) << "the receiver is full";
  EXPECT_EQ(Read(server_).size(), 100u);
  EXPECT_TRUE(network_.RunOnce());
}

TEST_F(SimNetworkTest, AnEndOfStreamComesAfterTheBytes) {
  network_.Send(client_, "bye");
  network_.Shutdown(client_, true);
  EXPECT_EQ(network_.Send(client_, "x"), IoResult::Error(EPIPE));
  DeliverAll();
  EXPECT_EQ(Read(server_), "bye");
  char byte;
  EXPECT_EQ(network_.Receive(server_, &byte, 1), IoResult::Bytes(0));
  EXPECT_EQ(network_.Send(server_, "the other way is open"), IoResult::Bytes(21));
}

TEST_F(SimNetworkTest, ACloseDeliversWhatWasSent) {
  network_.Send(client_, "last words");
  network_.Close(client_);
  DeliverAll();
  EXPECT_EQ(Read(server_), "last words");
  char byte;
  EXPECT_EQ(network_.Receive(server_, &byte, 1), IoResult::Bytes(0));
}

TEST_F(SimNetworkTest, ACloseWithUnreadBytesIsAReset) {
  network_.Send(server_, "unread");
  DeliverAll();
  network_.Close(client_);
  char byte;
  EXPECT_EQ(network_.Receive(server_, &byte, 1), IoResult::Error(ECONNRESET));
  EXPECT_NE(network_.PollEvents(server_) & POLLERR, 0u);
}

TEST_F(SimNetworkTest, BytesForAClosedSocketAreAnsweredWithAReset) {
  network_.Close(client_);
  DeliverAll();
  network_.Send(server_, "anyone there?");
  DeliverAll();
  EXPECT_EQ(network_.Send(server_, "x"), IoResult::Error(ECONNRESET));
}

TEST_F(SimNetworkTest, DescriptorsAreReusedLowestFirst) {
  network_.Close(client_);
  const int again = network_.Connect(9092);
  EXPECT_EQ(again, client_);
}

TEST_F(SimNetworkTest, WithTheServerGoneClientsFindOutAndCannotComeBack) {
  network_.DropServer();
  EXPECT_FALSE(network_.IsOpen(server_));
  char byte;
  EXPECT_EQ(network_.Receive(client_, &byte, 1), IoResult::Error(ECONNRESET));
  EXPECT_EQ(network_.Connect(9092), -ECONNREFUSED);
  network_.Close(client_);
  EXPECT_EQ(network_.open_sockets(), 0u);
}

TEST_F(SimNetworkTest, ClosedConnectionsLeaveNothingBehind) {
  network_.Close(client_);
  network_.Close(server_);
  DeliverAll();
  EXPECT_EQ(network_.open_sockets(), 1u) << "the listener";
}

TEST_F(SimNetworkTest, ShortTransfersComeFromTheSeed) {
  const auto run = [](uint64_t seed) {
    SimNetwork network(seed, {.socket_buffer_bytes = 1000, .short_transfer_one_in = 2});
    network.Listen(1);
    const int client = network.Connect(1);
    std::string counts;
    for (int i = 0; i < 10; ++i) {
      counts += std::to_string(network.Send(client, std::string(90, 'x')).bytes()) + " ";
    }
    return counts;
  };
  EXPECT_EQ(run(3), run(3));
  EXPECT_NE(run(3), run(4));
}

}  // namespace
}  // namespace gyre::sim
