#include "engine/process/stop_signals.h"

#include <csignal>
#include <cstdlib>

#include "gtest/gtest.h"

namespace gyre {
namespace {

using testing::ExitedWithCode;
using testing::KilledBySignal;

// Each in a process of its own: the disposition of signals belongs to the process.

void ExitWith(bool fine) { std::_Exit(fine ? 0 : 1); }

TEST(StopSignalsTest, WaitTellsWhichSignalCame) {
  for (int signal : {SIGINT, SIGTERM, SIGHUP}) {
    EXPECT_EXIT(
        {
          const StopSignals signals;
          raise(signal);
          ExitWith(signals.Wait() == signal && signals.Asks(signal));
        },
        ExitedWithCode(0), "");
  }
}

TEST(StopSignalsTest, OthersAreWaitedForAndAskForNoEnd) {
  EXPECT_EXIT(
      {
        const StopSignals signals({SIGUSR1});
        raise(SIGUSR1);
        ExitWith(!signals.TryTake() && signals.Wait() == SIGUSR1 && !signals.Asks(SIGUSR1));
      },
      ExitedWithCode(0), "");
}

TEST(StopSignalsTest, AHangUpThatIsIgnoredStaysIgnored) {
  EXPECT_EXIT(
      {
        std::signal(SIGHUP, SIG_IGN);
        const StopSignals signals;
        raise(SIGHUP);
        signals.EndAtNext(nullptr);
        raise(SIGHUP);
        ExitWith(!signals.TryTake() && !signals.Asks(SIGHUP));
      },
      ExitedWithCode(0), "");
}

TEST(StopSignalsTest, TryTakeTakesWhatHasComeAndDoesNotWait) {
  EXPECT_EXIT(
      {
        const StopSignals signals;
        const bool none = !signals.TryTake();
        raise(SIGTERM);
        const bool taken = signals.TryTake();
        ExitWith(none && taken && !signals.TryTake());
      },
      ExitedWithCode(0), "");
}

TEST(StopSignalsTest, TheNextEndsTheProcessWithItsLastWords) {
  for (int signal : {SIGINT, SIGTERM, SIGHUP}) {
    EXPECT_EXIT(
        {
          const StopSignals signals;
          raise(signal);
          signals.Wait();
          signals.EndAtNext("ended without a word more\n");
          raise(signal);
        },
        KilledBySignal(signal), "ended without a word more");
  }
}

}  // namespace
}  // namespace gyre
