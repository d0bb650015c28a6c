#include "engine/process/start_watch.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "engine/base/unique_fd.h"
#include "gtest/gtest.h"

namespace gyre {
namespace {

using testing::ExitedWithCode;
using testing::KilledBySignal;

constexpr char kWords[] = "ended while starting\n";

// Each that is about signals in a process of its own: their disposition is the process's.
class StartWatchTest : public testing::Test {
 protected:
  StartWatchTest() { testing::FLAGS_gtest_death_test_style = "threadsafe"; }
};

TEST_F(StartWatchTest, ASignalEndsTheProcessWhateverTheMainThreadDoes) {
  for (int signal : {SIGINT, SIGTERM, SIGHUP}) {
    EXPECT_EXIT(
        {
          const StopSignals signals;
          const ServiceNotifier nobody("");
          StartWatch watch(signals, nobody, kWords);
          if (!watch.Start().ok()) std::_Exit(2);
          kill(getpid(), signal);
          for (;;) sleep(60);
        },
        KilledBySignal(signal), kWords);
  }
}

TEST_F(StartWatchTest, OneThatCameBeforeItEndsTheProcess) {
  EXPECT_EXIT(
      {
        const StopSignals signals;
        kill(getpid(), SIGTERM);
        const ServiceNotifier nobody("");
        StartWatch watch(signals, nobody, kWords);
        if (!watch.Start().ok()) std::_Exit(2);
        for (;;) sleep(60);
      },
      KilledBySignal(SIGTERM), kWords);
}

TEST_F(StartWatchTest, AfterTheStartSignalsAreLeftToWhoWaitsForThem) {
  EXPECT_EXIT(
      {
        const StopSignals signals;
        const ServiceNotifier nobody("");
        StartWatch watch(signals, nobody, kWords);
        if (!watch.Start().ok()) std::_Exit(2);
        watch.Stop();
        kill(getpid(), SIGTERM);
        std::_Exit(signals.Wait() == SIGTERM ? 0 : 1);
      },
      ExitedWithCode(0), "");
}

TEST_F(StartWatchTest, OtherSignalsEndNothing) {
  EXPECT_EXIT(
      {
        const StopSignals signals({SIGUSR1});
        const ServiceNotifier nobody("");
        StartWatch watch(signals, nobody, kWords);
        if (!watch.Start().ok()) std::_Exit(2);
        kill(getpid(), SIGUSR1);
        watch.Stop();
        std::_Exit(signals.Wait() == SIGUSR1 ? 0 : 1);
      },
      ExitedWithCode(0), "");
}

TEST_F(StartWatchTest, TheServiceManagerHearsAtOnceThatItMayTakeLonger) {
  const UniqueFd manager(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const std::string name = absl::StrCat("@gyre-start-watch-", getpid());
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, name.data() + 1, name.size() - 1);
  ASSERT_EQ(bind(manager.get(), reinterpret_cast<sockaddr*>(&address),
                 static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size())),
            0);
  const timeval timeout = {20, 0};
  setsockopt(manager.get(), SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
  EXPECT_EXIT(
      {
        const StopSignals signals;
        const ServiceNotifier notifier(name);
        StartWatch watch(signals, notifier, kWords);
        if (!watch.Start().ok()) std::_Exit(2);
        char text[64] = {};
        (void)!recv(manager.get(), text, sizeof(text) - 1, 0);
        std::_Exit(std::string(text) == "EXTEND_TIMEOUT_USEC=40000000" ? 0 : 1);
      },
      ExitedWithCode(0), "");
}

}  // namespace
}  // namespace gyre
