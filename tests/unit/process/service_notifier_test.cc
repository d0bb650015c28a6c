#include "engine/process/service_notifier.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "engine/base/unique_fd.h"
#include "gtest/gtest.h"

namespace gyre {
namespace {

// What a service manager has: a datagram socket under `address`.
class Manager {
 public:
  explicit Manager(const std::string& address)
      : fd_(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un name = {};
    name.sun_family = AF_UNIX;
    std::memcpy(name.sun_path, address.data(), address.size());
    if (address[0] == '@') name.sun_path[0] = '\0';
    const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + address.size());
    EXPECT_EQ(bind(fd_.get(), reinterpret_cast<sockaddr*>(&name), size), 0) << strerror(errno);
    const timeval timeout = {20, 0};
    setsockopt(fd_.get(), SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
  }
  std::string Read() {
    char text[512];
    const ssize_t size = recv(fd_.get(), text, sizeof(text), 0);
    return size < 0 ? "<nothing>" : std::string(text, static_cast<size_t>(size));
  }

 private:
  UniqueFd fd_;
};

std::string ReadyText() { return absl::StrCat("READY=1\nSTATUS=serving\nMAINPID=", getpid()); }

TEST(ServiceNotifierTest, ASocketWithAPathIsToldOneDatagramEach) {
  const std::string path = absl::StrCat("/tmp/gyre-notify-", getpid());
  Manager manager(path);
  const ServiceNotifier notifier(path);
  EXPECT_TRUE(notifier.asked());
  EXPECT_TRUE(notifier.Status("recovering").ok());
  EXPECT_TRUE(notifier.Ready().ok());
  EXPECT_TRUE(notifier.Stopping().ok());
  EXPECT_EQ(manager.Read(), "STATUS=recovering");
  EXPECT_EQ(manager.Read(), ReadyText());
  EXPECT_EQ(manager.Read(), "STOPPING=1\nSTATUS=draining");
  unlink(path.c_str());
}

TEST(ServiceNotifierTest, AnAbstractSocketFromTheEnvironmentIsTold) {
  const std::string name = absl::StrCat("@gyre-notify-", getpid());
  Manager manager(name);
  setenv("NOTIFY_SOCKET", name.c_str(), 1);
  EXPECT_TRUE(ServiceNotifier::FromEnvironment().Ready().ok());
  EXPECT_EQ(manager.Read(), ReadyText());
  unsetenv("NOTIFY_SOCKET");
}

TEST(ServiceNotifierTest, WithoutAManagerNothingHappens) {
  unsetenv("NOTIFY_SOCKET");
  const ServiceNotifier notifier = ServiceNotifier::FromEnvironment();
  EXPECT_FALSE(notifier.asked());
  EXPECT_TRUE(notifier.Ready().ok());
}

TEST(ServiceNotifierTest, ASocketThatIsNotThereIsAnErrorWithItsName) {
  const absl::Status status = ServiceNotifier("/nowhere/notify").Ready();
  EXPECT_EQ(status.message(), "NOTIFY_SOCKET=/nowhere/notify: No such file or directory");
  EXPECT_FALSE(ServiceNotifier("relative").Ready().ok());
  EXPECT_FALSE(ServiceNotifier("/" + std::string(200, 'x')).Ready().ok());
}

}  // namespace
}  // namespace gyre
