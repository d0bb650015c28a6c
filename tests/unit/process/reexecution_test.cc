// What a process leaves itself across an execve (the execve itself: tests/interop/standby.py).
#include "engine/process/reexecution.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/base/unique_fd.h"
#include "engine/network/accept/listen_socket.h"
#include "gtest/gtest.h"

namespace gyre {
namespace {

using Inherited = absl::StatusOr<std::optional<std::vector<ListenSocket>>>;

Inherited TakeFrom(const std::string& value) {
  setenv("GYRE_INHERITED_SOCKETS", value.c_str(), 1);
  return TakeInheritedSockets();
}

ListenSocket Open(bool close_on_exec) {
  absl::StatusOr<ListenSocket> socket =
      OpenListenSocket(*ParseEndpoint("A://127.0.0.1:0"), SocketOptions(), false);
  EXPECT_TRUE(socket.ok()) << socket.status();
  fcntl(socket->fd.get(), F_SETFD, close_on_exec ? FD_CLOEXEC : 0);
  return *std::move(socket);
}

TEST(InheritedSockets, ComeOnceAndAreNotLeftToChildren) {
  ListenSocket left = Open(/*close_on_exec=*/false);
  const std::string bound = left.bound.ToString();
  const int fd = left.fd.Release();
  const Inherited inherited = TakeFrom(absl::StrCat(getpid(), " ", fd, "\n", bound));
  ASSERT_TRUE(inherited.ok()) << inherited.status();
  ASSERT_TRUE(inherited->has_value());
  ASSERT_EQ((*inherited)->size(), 1u);
  EXPECT_EQ((**inherited)[0].fd.get(), fd);
  EXPECT_EQ((**inherited)[0].bound.ToString(), bound);
  EXPECT_EQ(fcntl(fd, F_GETFD), FD_CLOEXEC);
  EXPECT_EQ(std::getenv("GYRE_INHERITED_SOCKETS"), nullptr);
  EXPECT_EQ(*TakeInheritedSockets(), std::nullopt);
}

TEST(InheritedSockets, OfAnotherProcessAreLeftAlone) {
  const ListenSocket other = Open(/*close_on_exec=*/false);
  const Inherited inherited =
      TakeFrom(absl::StrCat(getppid(), " ", other.fd.get(), "\n", other.bound.ToString()));
  ASSERT_TRUE(inherited.ok()) << inherited.status();
  EXPECT_FALSE(inherited->has_value());
  EXPECT_EQ(fcntl(other.fd.get(), F_GETFD), 0);
}

TEST(InheritedSockets, WhatIsNoListeningSocketIsRefused) {
  const int no_socket = open("/dev/null", O_RDONLY);
  const UniqueFd stream(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  for (const std::string& rest :
       {absl::StrCat(" ", no_socket, "\nA://127.0.0.1:1"), std::string(" 999\nA://127.0.0.1:1"),
        std::string(" x\nA://127.0.0.1:1"), std::string(" -1\nA://127.0.0.1:1"),
        std::string("\nA://127.0.0.1:1"), std::string(" ")}) {
    const Inherited inherited = TakeFrom(absl::StrCat(getpid(), rest));
    EXPECT_FALSE(inherited.ok()) << rest;
    EXPECT_TRUE(absl::StrContains(inherited.status().message(), "GYRE_INHERITED_SOCKETS"))
        << inherited.status();
  }
}

}  // namespace
}  // namespace gyre
