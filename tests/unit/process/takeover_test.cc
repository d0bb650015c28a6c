#include "engine/process/takeover.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/process/takeover_messages.h"
#include "gtest/gtest.h"

namespace gyre {
namespace {

constexpr int64_t kTimeoutMs = 20'000;
constexpr char kTerms[] = "accept_mode=acceptor log_dirs=/data";

class TakeoverTest : public ::testing::Test {
 protected:
  TakeoverTest() {
    // Short enough for a socket's name, wherever tests run.
    char directory[] = "/tmp/gyre-takeover-XXXXXX";
    path_ = absl::StrCat(mkdtemp(directory), "/socket");
    absl::StatusOr<ListenSocket> socket =
        OpenListenSocket(*ParseEndpoint("A://127.0.0.1:0"), SocketOptions(), false);
    EXPECT_TRUE(socket.ok());
    socket_ = *std::move(socket);
  }
  ~TakeoverTest() override {
    point_.reset();
    unlink(path_.c_str());
    rmdir(path_.substr(0, path_.rfind('/')).c_str());
  }

  absl::Status Open(int64_t peer_timeout_ms = kTimeoutMs) {
    TakeoverPoint::Options options;
    options.path = path_;
    options.terms = kTerms;
    options.peer_timeout_ms = peer_timeout_ms;
    options.sockets = [this]() -> absl::StatusOr<std::vector<ListenSocket>> {
      std::vector<ListenSocket> sockets;
      sockets.push_back(
          ListenSocket{UniqueFd(fcntl(socket_.fd.get(), F_DUPFD_CLOEXEC, 0)), socket_.bound});
      return sockets;
    };
    options.drain_timeout_ms = [] { return int64_t{12'345}; };
    options.on_commit = [this] { ++commits_; };
    options.refuse_until_ns = refuse_until_ns_;
    options.refusal = "not now";
    absl::StatusOr<std::unique_ptr<TakeoverPoint>> point =
        TakeoverPoint::Open(std::move(options), Clock::Real());
    if (!point.ok()) return point.status();
    point_ = *std::move(point);
    return absl::OkStatus();
  }
  absl::StatusOr<Takeover> Begin(absl::string_view terms = kTerms,
                                 int64_t timeout_ms = kTimeoutMs) {
    return Takeover::Begin(path_, terms, timeout_ms);
  }
  UniqueFd Connect() {
    UniqueFd peer(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    const sockaddr_un address = UnixNameOf(path_)->address;
    EXPECT_EQ(connect(peer.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
    return peer;
  }

  std::string path_;
  ListenSocket socket_;
  std::atomic<int> commits_{0};
  int64_t refuse_until_ns_ = 0;
  std::unique_ptr<TakeoverPoint> point_;
};

TEST_F(TakeoverTest, WhereAFileIsSomebodyListens) {
  std::atomic<bool> stop{false};
  std::atomic<int> connected{0};
  std::thread successors([&] {
    const sockaddr_un address = UnixNameOf(path_)->address;
    while (!stop) {
      const UniqueFd peer(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
      const auto* name = reinterpret_cast<const sockaddr*>(&address);
      if (connect(peer.get(), name, sizeof(address)) == 0) {
        ++connected;
      } else {
        EXPECT_NE(errno, ECONNREFUSED);
      }
    }
  });
  while (connected < 50) {
    ASSERT_TRUE(Open().ok());
    point_.reset();
  }
  stop = true;
  successors.join();
}

TEST_F(TakeoverTest, ASuccessorAcceptsWhoWaitedInTheBacklog) {
  ASSERT_TRUE(Open().ok());
  UniqueFd client(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(socket_.bound.port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(connect(client.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);

  absl::StatusOr<Takeover> takeover = Begin();
  ASSERT_TRUE(takeover.ok()) << takeover.status();
  EXPECT_EQ(takeover->pid(), getpid());
  ASSERT_EQ(takeover->sockets().size(), 1u);
  EXPECT_EQ(takeover->sockets()[0].bound.ToString(), socket_.bound.ToString());
  EXPECT_EQ(commits_, 0);
  ASSERT_TRUE(takeover->Commit().ok());

  std::thread draining([this] {
    while (commits_ == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_TRUE(point_->committed());
    socket_.fd.Reset();
    point_->Done();
  });
  EXPECT_TRUE(takeover->AwaitDone(kTimeoutMs).ok());
  draining.join();
  const UniqueFd accepted(accept4(takeover->sockets()[0].fd.get(), nullptr, nullptr, SOCK_CLOEXEC));
  EXPECT_TRUE(accepted.valid()) << std::strerror(errno);
  EXPECT_EQ(commits_, 1);
  EXPECT_NE(access(path_.c_str(), F_OK), 0) << "the socket's file stays";
}

TEST_F(TakeoverTest, WithoutAProcessThereIsNothingToTakeOver) {
  EXPECT_TRUE(absl::IsNotFound(Begin().status())) << Begin().status();
  // One that was killed left its file.
  {
    UniqueFd left(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    const sockaddr_un address = UnixNameOf(path_)->address;
    ASSERT_EQ(bind(left.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  }
  EXPECT_TRUE(absl::IsNotFound(Begin().status())) << Begin().status();
  EXPECT_TRUE(Open().ok()) << "the file is in the way";
  EXPECT_TRUE(Begin().ok());
}

TEST_F(TakeoverTest, OnlyTheUserMayConnect) {
  ASSERT_TRUE(Open().ok());
  struct stat file = {};
  ASSERT_EQ(lstat(path_.c_str(), &file), 0);
  EXPECT_EQ(file.st_mode & 0777, 0600u);
}

TEST_F(TakeoverTest, FilesThatOthersMakeMeanwhileKeepTheirModes) {
  const std::string path = absl::StrCat(path_, ".other");
  std::atomic<bool> stop{false};
  std::thread other([&] {
    while (!stop) {
      const UniqueFd fd(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0640));
      struct stat file = {};
      EXPECT_EQ(fstat(fd.get(), &file), 0);
      EXPECT_EQ(file.st_mode & 0700, 0600u);
      EXPECT_EQ(file.st_mode & 040, 040u);
      if (file.st_mode == 0) break;
      unlink(path.c_str());
    }
  });
  for (int i = 0; i < 1000; ++i) {
    ASSERT_TRUE(Open().ok());
    point_.reset();
  }
  stop = true;
  other.join();
}

TEST_F(TakeoverTest, ASocketBehindWhichAnotherProcessListensIsLeftToIt) {
  ASSERT_TRUE(Open().ok());
  std::unique_ptr<TakeoverPoint> first = std::move(point_);
  const absl::Status second = Open();
  EXPECT_TRUE(absl::IsAlreadyExists(second)) << second;
  EXPECT_TRUE(absl::StrContains(second.message(), path_)) << second;
  point_.reset();
  EXPECT_TRUE(Begin().ok()) << "the first one's is gone";
  first.reset();
  EXPECT_TRUE(Open().ok());
}

// As when it is being taken over by another one: its backlog is reset.
TEST_F(TakeoverTest, AProcessThatGoesInsteadOfAnsweringIsToldSo) {
  UniqueFd listener(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  const sockaddr_un address = UnixNameOf(path_)->address;
  ASSERT_EQ(bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  ASSERT_EQ(listen(listener.get(), 4), 0);
  absl::Status status;
  std::thread asking([&] { status = Begin().status(); });
  ASSERT_TRUE(Await(listener.get(), kTimeoutMs));
  listener.Reset();
  asking.join();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), "being taken over")) << status;
}

TEST_F(TakeoverTest, ASuccessorThatLeavesBeforeItsCommitChangesNothing) {
  ASSERT_TRUE(Open().ok());
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(Begin().ok());
  EXPECT_TRUE(Begin().ok());
  EXPECT_EQ(commits_, 0);
  EXPECT_FALSE(point_->committed());
}

TEST_F(TakeoverTest, OtherTermsAreRefusedWithBothSides) {
  ASSERT_TRUE(Open().ok());
  for (const std::string terms :
       {"accept_mode=reuseport log_dirs=/data", "accept_mode=acceptor log_dirs=/other", ""}) {
    const absl::Status status = Begin(terms).status();
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
    EXPECT_TRUE(absl::StrContains(status.message(), absl::StrCat(kTerms, ", this one has ", terms)))
        << status;
  }
}

TEST_F(TakeoverTest, WhoSpeaksSomethingElseIsLetGo) {
  ASSERT_TRUE(Open().ok());
  for (const std::string& text : {std::string("GET / HTTP/1.1\r\n\r\n"), std::string(40'000, 'x'),
                                  std::string(kTakeoverCommit), std::string(kTakeoverDone)}) {
    const UniqueFd peer = Connect();
    ASSERT_TRUE(SendPacket(peer.get(), text, {}).ok());
    const absl::StatusOr<TakeoverPacket> answer = AwaitPacket(peer.get(), kTimeoutMs);
    ASSERT_TRUE(answer.ok()) << answer.status();
    EXPECT_EQ(answer->text, "") << "it was not let go";
  }
  EXPECT_TRUE(Begin().ok());
  EXPECT_EQ(commits_, 0);
}

TEST_F(TakeoverTest, WhoSaysNothingHoldsNobodyUpForLong) {
  ASSERT_TRUE(Open(/*peer_timeout_ms=*/50).ok());
  const UniqueFd silent = Connect();
  EXPECT_TRUE(Begin().ok());
}

TEST_F(TakeoverTest, AProcessThatDoesNotAnswerIsLeftAsItIs) {
  UniqueFd hung(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  const sockaddr_un address = UnixNameOf(path_)->address;
  ASSERT_EQ(bind(hung.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  ASSERT_EQ(listen(hung.get(), 1), 0);
  const absl::Status status = Begin(kTerms, 50).status();
  EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
}

TEST_F(TakeoverTest, AnOfferWhoseSocketsDoNotListenIsRefused) {
  std::vector<UniqueFd> fds;
  fds.emplace_back(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  EXPECT_FALSE(SocketsOf("A://127.0.0.1:9092", std::move(fds)).ok());
  EXPECT_FALSE(SocketsOf("A://127.0.0.1:9092", {}).ok());
  std::vector<UniqueFd> one;
  one.emplace_back(fcntl(socket_.fd.get(), F_DUPFD_CLOEXEC, 0));
  EXPECT_FALSE(SocketsOf("", std::move(one)).ok());
}

// A process that speaks the protocol and holds a lock until it is killed: then its files
// are closed in an order of the kernel's, the many between the two making the time longer.
pid_t StartLockHolder(const std::string& path, const std::string& lock_path) {
  const pid_t pid = fork();
  if (pid != 0) return pid;
  const int lock = open(lock_path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (flock(lock, LOCK_EX) != 0) _exit(1);
  for (int i = 0; i < 200; ++i) (void)epoll_create1(EPOLL_CLOEXEC);
  const int listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  const sockaddr_un address = UnixNameOf(path)->address;
  if (bind(listener, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) _exit(2);
  if (listen(listener, 1) != 0) _exit(3);
  const int peer = accept(listener, nullptr, nullptr);
  (void)AwaitPacket(peer, kTimeoutMs);
  (void)SendPacket(peer, absl::StrCat(kTakeoverOffer, getpid()), {});
  for (;;) pause();
}

TEST_F(TakeoverTest, AProcessThatWasKilledHasReleasedItsDataWhenTheWaitIsOver) {
  const std::string lock_path = absl::StrCat(path_, ".lock");
  for (int i = 0; i < 20; ++i) {
    const pid_t pid = StartLockHolder(path_, lock_path);
    absl::StatusOr<Takeover> takeover;
    do {
      takeover = Begin();
    } while (absl::IsNotFound(takeover.status()));
    ASSERT_TRUE(takeover.ok()) << takeover.status();
    ASSERT_TRUE(takeover->Commit().ok());
    ASSERT_EQ(kill(pid, SIGKILL), 0);
    EXPECT_TRUE(takeover->AwaitDone(kTimeoutMs).ok());
    const UniqueFd lock(open(lock_path.c_str(), O_RDWR | O_CLOEXEC));
    EXPECT_EQ(flock(lock.get(), LOCK_EX | LOCK_NB), 0) << "its lock is still there";
    EXPECT_EQ(waitpid(pid, nullptr, 0), pid);
    unlink(path_.c_str());
  }
  unlink(lock_path.c_str());
}

TEST_F(TakeoverTest, AProcessThatLetsItsSuccessorGoHasReleasedNothing) {
  ASSERT_TRUE(Open().ok());
  absl::StatusOr<Takeover> takeover = Begin();
  ASSERT_TRUE(takeover.ok());
  ASSERT_TRUE(takeover->Commit().ok());
  while (commits_ == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  point_.reset();
  const absl::Status status = takeover->AwaitDone(200);
  EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), "let this one go")) << status;
  const absl::Status commit = takeover->Commit();
  EXPECT_TRUE(absl::StrContains(commit.message(), absl::StrCat("process ", getpid()))) << commit;
}

TEST_F(TakeoverTest, WaitingEndsAtItsDeadline) {
  ASSERT_TRUE(Open().ok());
  absl::StatusOr<Takeover> takeover = Begin();
  ASSERT_TRUE(takeover.ok());
  ASSERT_TRUE(takeover->Commit().ok());
  EXPECT_TRUE(absl::IsDeadlineExceeded(takeover->AwaitDone(1)));
}

TEST_F(TakeoverTest, WhatBecomesOfTheSuccessorIsHeardAfterTheEnd) {
  using Successor = TakeoverPoint::Successor;
  for (const Successor expected :
       {Successor::kServes, Successor::kSilent, Successor::kUnasked, Successor::kEnded}) {
    ASSERT_TRUE(Open().ok());
    std::optional<Takeover> takeover;
    if (expected == Successor::kEnded) {
      // A process of its own, which ends with its connection.
      const pid_t pid = fork();
      if (pid == 0) {
        absl::StatusOr<Takeover> child = Begin();
        _exit(child.ok() && child->Commit().ok() ? 0 : 1);
      }
      int status = -1;
      ASSERT_EQ(waitpid(pid, &status, 0), pid);
      ASSERT_EQ(status, 0);
    } else {
      absl::StatusOr<Takeover> begun = Begin();
      ASSERT_TRUE(begun.ok()) << begun.status();
      takeover = *std::move(begun);
      ASSERT_TRUE(takeover->Commit().ok());
    }
    while (!point_->committed()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    point_->Done();
    EXPECT_EQ(point_->sockets().size(), 1u) << "none are left to serve again with";
    if (expected == Successor::kServes) {
      EXPECT_TRUE(takeover->AwaitDone(kTimeoutMs).ok());
      takeover->Serves();
    }
    const int64_t timeout_ms = expected == Successor::kSilent ? 1 : kTimeoutMs;
    EXPECT_EQ(point_->AwaitServing(timeout_ms, [&] { return expected == Successor::kUnasked; }),
              expected);
    point_.reset();
  }
}

TEST_F(TakeoverTest, OneThatStopsSaysSoToWhoAsksAndToWhoHasNotCommitted) {
  ASSERT_TRUE(Open().ok());
  absl::StatusOr<Takeover> offered = Begin();
  ASSERT_TRUE(offered.ok()) << offered.status();
  point_->Refuse("it stops");
  EXPECT_TRUE(absl::StrContains(Begin().status().message(), "refuses: it stops"));
  const absl::Status commit = offered->Commit();
  EXPECT_TRUE(absl::StrContains(commit.message(), "refuses: it stops")) << commit;
  EXPECT_EQ(commits_, 0);
  EXPECT_FALSE(point_->committed());
}

TEST_F(TakeoverTest, ACommitThatCrossesTheStopIsRefused) {
  ASSERT_TRUE(Open().ok());
  const UniqueFd peer = Connect();
  ASSERT_TRUE(SendPacket(peer.get(), absl::StrCat(kTakeoverHello, kTerms), {}).ok());
  ASSERT_TRUE(AwaitPacket(peer.get(), kTimeoutMs).ok());
  point_->Refuse("it stops");
  // It was on its way when the refusal came.
  (void)SendPacket(peer.get(), kTakeoverCommit, {});
  const absl::StatusOr<TakeoverPacket> answer = AwaitPacket(peer.get(), kTimeoutMs);
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->text, absl::StrCat(kTakeoverRefuse, "it stops"));
  EXPECT_FALSE(point_->committed());
}

TEST_F(TakeoverTest, WhileOneTakesOverTheNextIsToldSo) {
  ASSERT_TRUE(Open().ok());
  absl::StatusOr<Takeover> first = Begin();
  ASSERT_TRUE(first.ok()) << first.status();
  ASSERT_TRUE(first->Commit().ok());
  while (!point_->committed()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  // What asked for the end was the commit.
  point_->Refuse("it stops");
  const absl::Status second = Begin().status();
  EXPECT_TRUE(absl::StrContains(second.message(), "is being taken over")) << second;
  point_->Done();
  EXPECT_TRUE(first->AwaitDone(kTimeoutMs).ok());
  EXPECT_EQ(point_->sockets().size(), 1u);
}

TEST_F(TakeoverTest, AnOfferTellsHowLongADrainMayTake) {
  ASSERT_TRUE(Open().ok());
  absl::StatusOr<Takeover> takeover = Begin();
  ASSERT_TRUE(takeover.ok()) << takeover.status();
  EXPECT_EQ(takeover->pid(), getpid());
  EXPECT_EQ(takeover->drain_timeout_ms(), 12'345);
}

TEST_F(TakeoverTest, NobodyIsOfferedAnythingForAWhile) {
  refuse_until_ns_ = Clock::Real().NowNs() + kTimeoutMs * 1'000'000;
  ASSERT_TRUE(Open().ok());
  const absl::Status status = Begin().status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), "not now")) << status;
  point_.reset();
  refuse_until_ns_ = Clock::Real().NowNs();
  ASSERT_TRUE(Open().ok());
  EXPECT_TRUE(Begin().ok());
}

TEST_F(TakeoverTest, ADirectoryMayHaveALongerPathThanASocket) {
  const std::string top = path_.substr(0, path_.rfind('/'));
  std::vector<std::string> directories = {top};
  for (int i = 0; i < 3; ++i) {
    directories.push_back(absl::StrCat(directories.back(), "/", std::string(200, 'x')));
    ASSERT_EQ(mkdir(directories.back().c_str(), 0700), 0);
  }
  const std::string short_path = std::exchange(path_, directories.back() + "/takeover.sock");
  EXPECT_TRUE(CheckTakeoverSocket(path_).ok()) << CheckTakeoverSocket(path_);
  EXPECT_TRUE(absl::IsNotFound(Begin().status())) << Begin().status();
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(Open().ok());
    EXPECT_EQ(access(path_.c_str(), F_OK), 0) << "the socket is elsewhere";
    EXPECT_TRUE(Begin().ok());
    // Nobody listens at what is left.
    if (i == 0) {
      point_.reset();
      UniqueFd left(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
      const UnixName name = *UnixNameOf(path_);
      ASSERT_EQ(
          bind(left.get(), reinterpret_cast<const sockaddr*>(&name.address), sizeof(name.address)),
          0);
    }
  }
  EXPECT_FALSE(Begin("other").ok());
  point_.reset();
  EXPECT_NE(access(path_.c_str(), F_OK), 0) << "the socket's file stays";
  path_ = directories.back() + "/none/takeover.sock";
  EXPECT_TRUE(absl::IsNotFound(Begin().status())) << Begin().status();
  EXPECT_FALSE(Open().ok());
  path_ = short_path;
  for (size_t i = directories.size() - 1; i > 0; --i) rmdir(directories[i].c_str());
}

TEST_F(TakeoverTest, ANameTooLongForASocketIsOneLine) {
  const std::string short_path = std::exchange(path_, "/tmp/" + std::string(200, 'x'));
  EXPECT_TRUE(absl::IsInvalidArgument(Open()));
  EXPECT_TRUE(absl::IsInvalidArgument(Begin().status()));
  path_ = short_path;
}

}  // namespace
}  // namespace gyre
