#include "engine/network/connection/connection.h"

#include "gtest/gtest.h"

namespace gyre {
namespace {

using Step = ConnectionStep;
using Receiving = Connection::Receiving;

class ConnectionTest : public ::testing::Test {
 protected:
  void Arm() {
    ASSERT_EQ(connection_.Decide(), Step::kReceive);
    connection_.OnReceiveArmed(Receiving::kProvided);
    connection_.OnOperationSubmitted();
  }
  void Bytes(int64_t unparsed) { connection_.OnInput(unparsed, false, false, unparsed > 0, true); }
  void Retire() {
    connection_.OnReceiveRetired();
    connection_.OnOperationRetired();
  }
  // One request is taken and nothing is left.
  void Dispatch(bool more = false) {
    ASSERT_EQ(connection_.Decide(), Step::kDispatch);
    if (!more) connection_.OnInputExhausted();
    connection_.OnInput(more ? 100 : 0, false, false, more, false);
    connection_.OnRunDispatched(1, 1 * 100, false, false);
  }
  void Send() {
    ASSERT_EQ(connection_.Decide(), Step::kSend);
    connection_.OnSendBusy();
    connection_.OnOperationSubmitted();
  }
  void Sent() {
    connection_.OnOperationRetired();
    connection_.OnSendIdle();
    connection_.OnResponseSent(100);
  }
  void Close() {
    if (connection_.Decide() == Step::kLinger) connection_.OnLingerOver();
    ASSERT_EQ(connection_.Decide(), Step::kShutdown);
    connection_.OnShutdownDone();
    while (connection_.operations() > 0) {
      EXPECT_EQ(connection_.Decide(), Step::kNone);
      connection_.OnOperationRetired();
    }
    ASSERT_EQ(connection_.Decide(), Step::kClose);
    connection_.OnClosed();
  }

  Connection::Limits limits_{1000, 1000, 1, INT64_MAX, true};
  Connection connection_{limits_};
};

TEST_F(ConnectionTest, AnEchoFromArmToFree) {
  Arm();
  EXPECT_EQ(connection_.Decide(), Step::kNone);
  Bytes(100);
  Dispatch();
  EXPECT_EQ(connection_.mute(), MuteState::kMutedAndResponsePending);
  EXPECT_EQ(connection_.Decide(), Step::kNone);
  connection_.OnResponsesReady(1);
  Send();
  EXPECT_EQ(connection_.Decide(), Step::kNone);
  Sent();
  EXPECT_EQ(connection_.mute(), MuteState::kNotMuted);
  EXPECT_EQ(connection_.Decide(), Step::kNone);
  connection_.OnPeerFinished();
  Retire();
  Close();
  EXPECT_EQ(connection_.Decide(), Step::kFree);
}

TEST_F(ConnectionTest, TheSecondRequestWaitsForTheFirstResponse) {
  Arm();
  Bytes(200);
  Dispatch(/*more=*/true);
  EXPECT_EQ(connection_.Decide(), Step::kNone);
  connection_.OnResponsesReady(1);
  Send();
  Sent();
  EXPECT_EQ(connection_.Decide(), Step::kDispatch);
}

TEST_F(ConnectionTest, AMultishotReceiveIsWatchedWhenNothingComes) {
  EXPECT_TRUE(connection_.may_miss_reset());
  Arm();
  EXPECT_EQ(connection_.Decide(), Step::kNone);
  connection_.OnQuiet();
  EXPECT_FALSE(connection_.may_miss_reset());
  ASSERT_EQ(connection_.Decide(), Step::kWatchHangup);
  connection_.OnHangupWatchArmed();
  EXPECT_EQ(connection_.Decide(), Step::kNone);
  limits_.receive_is_multishot = false;
  Connection one_shot(limits_);
  EXPECT_FALSE(one_shot.may_miss_reset());
  one_shot.OnReceiveArmed(Receiving::kProvided);
  one_shot.OnQuiet();
  EXPECT_EQ(one_shot.Decide(), Step::kNone);
}

TEST_F(ConnectionTest, AMutedConnectionReceivesUpToTheBoundThenStopsAndWatches) {
  Arm();
  Bytes(100);
  Dispatch();
  Bytes(1000);
  EXPECT_EQ(connection_.Decide(), Step::kNone);
  Bytes(1001);
  ASSERT_EQ(connection_.Decide(), Step::kCancelReceive);
  connection_.OnCancelSent();
  // Late completions still come, and are kept.
  Bytes(5000);
  EXPECT_EQ(connection_.Decide(), Step::kNone);
  Retire();
  ASSERT_EQ(connection_.Decide(), Step::kWatchHangup);
  connection_.OnHangupWatchArmed();
  connection_.OnOperationSubmitted();
  EXPECT_EQ(connection_.Decide(), Step::kNone);
  // Unmuted, parsed: it receives again.
  connection_.OnResponsesReady(1);
  Send();
  Sent();
  Dispatch();
  Arm();
}

TEST_F(ConnectionTest, AHalfClosedPeerStillGetsItsAnswersInOrder) {
  Arm();
  Bytes(200);
  Dispatch(/*more=*/true);
  connection_.OnPeerFinished();
  Retire();
  EXPECT_EQ(connection_.Decide(), Step::kNone);
  connection_.OnResponsesReady(1);
  Send();
  Sent();
  // A whole frame that came before the FIN is served too.
  Dispatch();
  connection_.OnResponsesReady(1);
  Send();
  EXPECT_EQ(connection_.Decide(), Step::kNone);
  Sent();
  Close();
  EXPECT_EQ(connection_.Decide(), Step::kFree);
}

TEST_F(ConnectionTest, APartialFrameBeforeFinIsDropped) {
  Arm();
  Bytes(10);
  ASSERT_EQ(connection_.Decide(), Step::kDispatch);
  connection_.OnInputExhausted();
  connection_.OnPeerFinished();
  Retire();
  Close();
}

TEST_F(ConnectionTest, AfterAResetWholeFramesAreStartedAndAnswersDropped) {
  Arm();
  Bytes(200);
  Dispatch(/*more=*/true);
  connection_.OnPeerLost();
  Retire();
  EXPECT_EQ(connection_.Decide(), Step::kNone);
  connection_.OnResponsesReady(1);
  ASSERT_EQ(connection_.Decide(), Step::kDropResponses);
  connection_.OnResponseSent(100);
  Dispatch();
  // Nothing is left to start: the socket closes, the slot waits for the handler.
  Close();
  EXPECT_EQ(connection_.Decide(), Step::kNone);
  connection_.OnResponsesReady(1);
  ASSERT_EQ(connection_.Decide(), Step::kDropResponses);
  connection_.OnResponseSent(100);
  EXPECT_EQ(connection_.Decide(), Step::kFree);
}

TEST_F(ConnectionTest, ABadFrameClosesAfterWhatIsInFlight) {
  Arm();
  Bytes(200);
  Dispatch();
  connection_.CloseAfterFlush();
  EXPECT_EQ(connection_.Decide(), Step::kCancelReceive);
  connection_.OnCancelSent();
  EXPECT_EQ(connection_.Decide(), Step::kNone);
  connection_.OnResponsesReady(1);
  Send();
  Sent();
  Close();
}

TEST_F(ConnectionTest, AnAbortShutsDownAtOnceAndFreesAfterTheHandlers) {
  Arm();
  Bytes(100);
  Dispatch();
  connection_.Abort();
  Close();
  EXPECT_EQ(connection_.Decide(), Step::kNone);
  connection_.OnResponsesReady(1);
  EXPECT_EQ(connection_.Decide(), Step::kDropResponses);
  connection_.OnResponseSent(100);
  EXPECT_EQ(connection_.Decide(), Step::kFree);
}

TEST_F(ConnectionTest, DrainClosesAnIdleConnectionAtOnce) {
  Arm();
  connection_.BeginDrain();
  Close();
}

TEST_F(ConnectionTest, DrainLetsAFrameThatWasBegunComeIn) {
  Arm();
  Bytes(10);
  connection_.OnInputExhausted();
  connection_.BeginDrain();
  EXPECT_EQ(connection_.Decide(), Step::kNone);
  Bytes(100);
  Dispatch();
  // At the boundary no more is read.
  ASSERT_EQ(connection_.Decide(), Step::kCancelReceive);
  connection_.OnCancelSent();
  connection_.OnResponsesReady(1);
  Send();
  Sent();
  Close();
}

TEST_F(ConnectionTest, DrainTakesTheFrameThatWasBegunAndNoneAfterIt) {
  Arm();
  Bytes(100);
  Dispatch(/*more=*/true);
  connection_.BeginDrain();
  // One is whole: it waits for its turn, and nothing is received behind it.
  ASSERT_EQ(connection_.Decide(), Step::kCancelReceive);
  connection_.OnCancelSent();
  Retire();
  connection_.OnHangupWatchArmed();
  connection_.OnResponsesReady(1);
  Send();
  Sent();
  Dispatch(/*more=*/true);
  connection_.OnInputExhausted();
  // A part of the next is here: the rest may come.
  Arm();
  connection_.OnResponsesReady(1);
  Send();
  Sent();
  Bytes(100);
  Dispatch(/*more=*/true);
  connection_.OnInputExhausted();
  connection_.OnResponsesReady(1);
  Send();
  Sent();
  // And a part of one more: that was too late.
  EXPECT_EQ(connection_.Decide(), Step::kLinger);
}

TEST_F(ConnectionTest, AfterItsLastAnswerItReadsOnUntilThePeerHasIt) {
  Arm();
  Bytes(100);
  Dispatch();
  connection_.OnResponsesReady(1);
  Send();
  connection_.CloseAfterFlush();
  Sent();
  ASSERT_EQ(connection_.Decide(), Step::kLinger);
  connection_.OnLingering();
  EXPECT_TRUE(connection_.closing());
  EXPECT_EQ(connection_.Decide(), Step::kNone);
  Retire();
  Arm();
  Connection other = connection_;
  connection_.OnLingerOver();
  Close();
  other.OnPeerFinished();
  EXPECT_EQ(other.Decide(), Step::kShutdown);
}

TEST_F(ConnectionTest, StarvedOrWithoutMemoryItDoesNotReceive) {
  connection_.SetStarved(true);
  ASSERT_EQ(connection_.Decide(), Step::kWatchHangup);
  connection_.OnHangupWatchArmed();
  EXPECT_EQ(connection_.Decide(), Step::kNone);
  connection_.SetStarved(false);
  connection_.SetWaitingForMemory(true);
  EXPECT_EQ(connection_.Decide(), Step::kNone);
  connection_.SetWaitingForMemory(true, /*completes_frame=*/true);
  EXPECT_EQ(connection_.Decide(), Step::kReceive);
  connection_.SetWaitingForMemory(false);
  Arm();
}

TEST_F(ConnectionTest, AParkedRunHoldsBackTheNextAndKeepsTheConnection) {
  Arm();
  Bytes(200);
  Dispatch(/*more=*/true);
  connection_.SetParked(true);
  connection_.OnPeerFinished();
  Retire();
  EXPECT_EQ(connection_.Decide(), Step::kNone);
  EXPECT_FALSE(connection_.idle());
  connection_.SetParked(false);
  connection_.OnResponsesReady(1);
  Send();
}

TEST_F(ConnectionTest, ALargeFrameStopsTheMultishotAndGoesOnDirectly) {
  Arm();
  Bytes(100);
  ASSERT_EQ(connection_.Decide(), Step::kDispatch);
  connection_.OnInputExhausted();
  connection_.OnInput(0, true, true, true, false);
  ASSERT_EQ(connection_.Decide(), Step::kCancelReceive);
  connection_.OnCancelSent();
  EXPECT_EQ(connection_.Decide(), Step::kNone);
  Retire();
  ASSERT_EQ(connection_.Decide(), Step::kReceiveDirect);
  connection_.OnReceiveArmed(Receiving::kDirect);
  connection_.OnOperationSubmitted();
  EXPECT_EQ(connection_.Decide(), Step::kNone);
  Retire();
  Bytes(0);
  Dispatch();
  Arm();
}

TEST_F(ConnectionTest, SeveralInFlightMuteAtTheLimitOnly) {
  limits_.max_in_flight = 3;
  Arm();
  Bytes(500);
  ASSERT_EQ(connection_.Decide(), Step::kDispatch);
  EXPECT_EQ(connection_.run_room(), 3);
  connection_.OnRunDispatched(2, 2 * 100, true, false);
  EXPECT_EQ(connection_.mute(), MuteState::kNotMuted);
  // One run at a time.
  EXPECT_EQ(connection_.run_room(), 0);
  connection_.OnRunStarted();
  EXPECT_EQ(connection_.run_room(), 1);
  connection_.OnRunDispatched(1, 1 * 100, true, false);
  connection_.OnRunStarted();
  EXPECT_EQ(connection_.mute(), MuteState::kMutedAndResponsePending);
  EXPECT_EQ(connection_.run_room(), 0);
  connection_.OnResponsesReady(2);
  Send();
  Sent();
  EXPECT_EQ(connection_.mute(), MuteState::kNotMuted);
  EXPECT_EQ(connection_.run_room(), 1);
}

TEST_F(ConnectionTest, ARaisedLimitMakesRoomAtOnceUnlessOneRunsAlone) {
  Arm();
  Bytes(500);
  connection_.OnRunDispatched(1, 100, false, false);
  EXPECT_EQ(connection_.Decide(), Step::kNone);
  limits_.max_in_flight = 3;
  connection_.OnLimitsChanged();
  EXPECT_EQ(connection_.run_room(), 2);
  EXPECT_EQ(connection_.Decide(), Step::kDispatch);
  connection_.OnResponsesReady(1);
  Send();
  Sent();

  connection_.OnRunDispatched(1, 100, false, /*alone=*/true);
  limits_.max_in_flight = 5;
  connection_.OnLimitsChanged();
  EXPECT_EQ(connection_.run_room(), 0);
  connection_.OnResponsesReady(1);
  Send();
  Sent();
  EXPECT_EQ(connection_.run_room(), 5);
}

TEST_F(ConnectionTest, BelowALoweredLimitIsOnlyWhoAnsweredThoseBeyondIt) {
  limits_.max_in_flight = 3;
  Arm();
  Bytes(500);
  connection_.OnRunDispatched(3, 300, false, false);
  limits_.max_in_flight = 1;
  connection_.OnLimitsChanged();
  connection_.OnResponsesReady(3);
  for (int left : {2, 1}) {
    Send();
    Sent();
    EXPECT_EQ(connection_.in_flight(), left);
    EXPECT_EQ(connection_.run_room(), 0);
  }
  Send();
  Sent();
  EXPECT_EQ(connection_.mute(), MuteState::kNotMuted);
  EXPECT_EQ(connection_.run_room(), 1);
}

TEST_F(ConnectionTest, AThrottledConnectionIsUnmutedAtTheLaterOfTheTwo) {
  Arm();
  Bytes(200);
  Dispatch(/*more=*/true);
  EXPECT_TRUE(connection_.OnThrottleStarted());
  connection_.OnResponsesReady(1);
  Send();
  Sent();
  EXPECT_EQ(connection_.Decide(), Step::kNone);
  EXPECT_TRUE(connection_.OnThrottleEnded());
  EXPECT_EQ(connection_.Decide(), Step::kDispatch);
  EXPECT_FALSE(connection_.OnThrottleEnded());
}

TEST_F(ConnectionTest, AThrottlingThatEndsBeforeTheAnswerIsForgottenByThen) {
  Arm();
  Bytes(200);
  Dispatch(/*more=*/true);
  EXPECT_TRUE(connection_.OnThrottleStarted());
  EXPECT_EQ(connection_.mute(), MuteState::kMutedAndThrottledAndResponsePending);
  EXPECT_TRUE(connection_.OnThrottleEnded());
  EXPECT_EQ(connection_.mute(), MuteState::kMutedAndResponsePending);
  connection_.OnResponsesReady(1);
  Send();
  Sent();
  EXPECT_EQ(connection_.Decide(), Step::kDispatch);
}

TEST_F(ConnectionTest, ThrottlingsOfSeveralRequestsOverlapAndTheLastEndCounts) {
  limits_.max_in_flight = 3;
  Arm();
  Bytes(500);
  connection_.OnRunDispatched(2, 2 * 100, false, false);
  EXPECT_TRUE(connection_.OnThrottleStarted());
  EXPECT_TRUE(connection_.OnThrottleStarted());
  EXPECT_EQ(connection_.run_room(), 0);
  connection_.OnResponsesReady(2);
  Send();
  connection_.OnResponseSent(100);
  EXPECT_EQ(connection_.mute(), MuteState::kMutedAndThrottledAndResponsePending);
  Sent();
  EXPECT_EQ(connection_.mute(), MuteState::kMutedAndThrottled);
  EXPECT_TRUE(connection_.OnThrottleEnded());
  EXPECT_EQ(connection_.run_room(), 0);
  EXPECT_TRUE(connection_.OnThrottleEnded());
  EXPECT_EQ(connection_.mute(), MuteState::kNotMuted);
}

TEST_F(ConnectionTest, AfterAThrottlingOneIsInFlightUntilOneWentByWithout) {
  limits_.max_in_flight = 5;
  Arm();
  Bytes(500);
  connection_.OnRunDispatched(3, 3 * 100, false, false);
  EXPECT_TRUE(connection_.OnThrottleStarted());
  EXPECT_TRUE(connection_.OnThrottleEnded());
  // The answers that are due leave before the next is taken.
  connection_.OnResponsesReady(3);
  for (int left = 3; left > 0; --left) {
    EXPECT_EQ(connection_.run_room(), 0) << left;
    connection_.OnResponseSent(100);
  }
  EXPECT_EQ(connection_.run_room(), 1);
  connection_.OnRunDispatched(1, 1 * 100, false, false);
  EXPECT_TRUE(connection_.OnThrottleStarted());
  EXPECT_TRUE(connection_.OnThrottleEnded());
  connection_.OnResponsesReady(1);
  connection_.OnResponseSent(100);
  EXPECT_EQ(connection_.run_room(), 1) << "that one was throttled, too";
  connection_.OnRunDispatched(1, 1 * 100, false, false);
  connection_.OnResponsesReady(1);
  connection_.OnResponseSent(100);
  EXPECT_EQ(connection_.run_room(), 5);
}

TEST_F(ConnectionTest, NoThrottlingOutlivesADrainOrStartsInOne) {
  Arm();
  Bytes(200);
  Dispatch(/*more=*/true);
  EXPECT_TRUE(connection_.OnThrottleStarted());
  connection_.BeginDrain();
  EXPECT_FALSE(connection_.throttled());
  EXPECT_FALSE(connection_.OnThrottleStarted());
  connection_.OnResponsesReady(1);
  Send();
  Sent();
  // What had come whole is served, throttled or not.
  EXPECT_EQ(connection_.Decide(), Step::kDispatch);
  EXPECT_FALSE(connection_.OnThrottleEnded());
}

TEST_F(ConnectionTest, AThrottledPeerThatFinishedWithNothingLeftEndsAtOnce) {
  Arm();
  Bytes(100);
  Dispatch();
  EXPECT_TRUE(connection_.OnThrottleStarted());
  connection_.OnResponsesReady(1);
  Send();
  Sent();
  EXPECT_EQ(connection_.mute(), MuteState::kMutedAndThrottled);
  EXPECT_FALSE(connection_.idle());
  connection_.OnPeerFinished();
  Retire();
  Close();
  EXPECT_EQ(connection_.Decide(), Step::kFree);
}

TEST_F(ConnectionTest, TheByteBudgetHoldsBackTheNextUntilAnAnswerLeft) {
  limits_.max_in_flight = 5;
  limits_.max_in_flight_bytes = 1000;
  Arm();
  Bytes(900);
  EXPECT_TRUE(connection_.has_byte_room(999));
  EXPECT_FALSE(connection_.has_byte_room(1000));
  connection_.OnRunDispatched(2, 700, false, false);
  EXPECT_EQ(connection_.run_room(), 3);
  // The first one's answer is large, and is not read.
  connection_.OnInFlightBytes(600 - 300);
  EXPECT_EQ(connection_.run_room(), 0);
  connection_.OnResponsesReady(1);
  Send();
  connection_.OnOperationRetired();
  connection_.OnSendIdle();
  connection_.OnResponseSent(600);
  EXPECT_EQ(connection_.run_room(), 4);
}

TEST_F(ConnectionTest, OneRequestLargerThanTheByteBudgetGoesByItself) {
  limits_.max_in_flight = 5;
  limits_.max_in_flight_bytes = 1000;
  Arm();
  Bytes(900);
  connection_.OnRunDispatched(1, 100'000, false, false);
  EXPECT_EQ(connection_.run_room(), 0);
  connection_.OnResponsesReady(1);
  connection_.OnResponseSent(100'000);
  EXPECT_EQ(connection_.run_room(), 5);
}

TEST_F(ConnectionTest, OneThatRunsAloneWaitsForThoseBeforeAndHoldsBackThoseAfter) {
  limits_.max_in_flight = 5;
  Arm();
  Bytes(900);
  connection_.OnRunDispatched(2, 200, false, false);
  connection_.SetNextAlone(true);
  EXPECT_EQ(connection_.run_room(), 0);
  connection_.OnResponsesReady(2);
  connection_.OnResponseSent(100);
  EXPECT_EQ(connection_.run_room(), 0);
  connection_.OnResponseSent(100);
  EXPECT_EQ(connection_.Decide(), Step::kDispatch);
  connection_.SetNextAlone(false);
  connection_.OnRunDispatched(1, 100, false, /*alone=*/true);
  EXPECT_EQ(connection_.run_room(), 0);
  EXPECT_EQ(connection_.mute(), MuteState::kMutedAndResponsePending);
  connection_.OnResponsesReady(1);
  connection_.OnResponseSent(100);
  EXPECT_EQ(connection_.run_room(), 5);
}

TEST_F(ConnectionTest, OneThatHadItsShareOfTheTurnTakesNoMoreInIt) {
  Arm();
  Bytes(900);
  connection_.SetYielded(true);
  EXPECT_EQ(connection_.Decide(), Step::kNone);
  connection_.SetYielded(false);
  EXPECT_EQ(connection_.Decide(), Step::kDispatch);
}

TEST_F(ConnectionTest, AHangupWatchThatToldAllIsNotArmedAgain) {
  connection_.SetStarved(true);
  connection_.OnHangupWatchArmed();
  connection_.OnHangupWatchRetired(/*again=*/false);
  EXPECT_EQ(connection_.Decide(), Step::kNone);
}

TEST_F(ConnectionTest, AnIdleConnectionMigratesWhenTheKernelHasNothingOfItLeft) {
  Arm();
  connection_.BeginMigration();
  ASSERT_EQ(connection_.Decide(), Step::kDetach);
  connection_.OnDetached();
  EXPECT_EQ(connection_.Decide(), Step::kNone);
  // Late bytes are kept, not handed over.
  Bytes(100);
  EXPECT_EQ(connection_.Decide(), Step::kNone);
  Retire();
  ASSERT_EQ(connection_.Decide(), Step::kMigrate);
  const Connection::Limits limits{1000, 1, true};
  connection_ = connection_.Migrated(limits);
  Dispatch();
  Arm();
}

TEST_F(ConnectionTest, WhatIsInFlightIsAnsweredBeforeMigratingAndNoMoreIsTaken) {
  Arm();
  Bytes(200);
  Dispatch(/*more=*/true);
  connection_.BeginMigration();
  EXPECT_EQ(connection_.Decide(), Step::kNone);
  connection_.OnResponsesReady(1);
  Send();
  Sent();
  ASSERT_EQ(connection_.Decide(), Step::kDetach);
  connection_.OnDetached();
  Retire();
  ASSERT_EQ(connection_.Decide(), Step::kMigrate);
  connection_ = connection_.Migrated(limits_);
  EXPECT_EQ(connection_.mute(), MuteState::kNotMuted);
  Dispatch();
}

TEST_F(ConnectionTest, AThrottledConnectionMigratesAndStaysThrottled) {
  Arm();
  Bytes(200);
  Dispatch(/*more=*/true);
  EXPECT_TRUE(connection_.OnThrottleStarted());
  connection_.OnResponsesReady(1);
  Send();
  Sent();
  connection_.BeginMigration();
  ASSERT_EQ(connection_.Decide(), Step::kDetach);
  connection_.OnDetached();
  Retire();
  ASSERT_EQ(connection_.Decide(), Step::kMigrate);
  connection_ = connection_.Migrated(limits_);
  Arm();
  EXPECT_EQ(connection_.Decide(), Step::kNone);
  EXPECT_TRUE(connection_.OnThrottleEnded());
  Dispatch();
}

TEST_F(ConnectionTest, APeerThatLeavesWhileMigratingIsClosedHere) {
  Arm();
  connection_.BeginMigration();
  connection_.OnDetached();
  connection_.OnPeerFinished();
  connection_.OnReceiveRetired();
  Close();
  EXPECT_EQ(connection_.Decide(), Step::kFree);
}

TEST_F(ConnectionTest, APeerThatFinishedAfterItsLastFrameMigratesWithThatFrame) {
  Arm();
  Bytes(200);
  Dispatch(/*more=*/true);
  connection_.OnPeerFinished();
  Retire();
  connection_.BeginMigration();
  connection_.OnResponsesReady(1);
  Send();
  Sent();
  ASSERT_EQ(connection_.Decide(), Step::kDetach);
  connection_.OnDetached();
  ASSERT_EQ(connection_.Decide(), Step::kMigrate);
  connection_ = connection_.Migrated(limits_);
  Dispatch();
  connection_.OnResponsesReady(1);
  Send();
  Sent();
  Close();
}

TEST_F(ConnectionTest, ItIsNotClosedWhilePinnedBytesMayStillBeAcknowledged) {
  connection_.OnZeroCopyPinned();
  connection_.Abort();
  ASSERT_EQ(connection_.Decide(), Step::kShutdown);
  connection_.OnShutdownDone();
  EXPECT_EQ(connection_.Decide(), Step::kNone);
  connection_.OnZeroCopyReleased();
  EXPECT_EQ(connection_.Decide(), Step::kClose);
  connection_.OnClosed();
  EXPECT_EQ(connection_.Decide(), Step::kFree);
}

TEST_F(ConnectionTest, PastItsCloseDeadlineItIsClosedButNotFreedBeforeTheNotification) {
  connection_.OnZeroCopyPinned();
  connection_.Abort();
  connection_.OnShutdownDone();
  connection_.OnCloseDue();
  ASSERT_EQ(connection_.Decide(), Step::kClose);
  connection_.OnClosed();
  EXPECT_EQ(connection_.Decide(), Step::kNone);
  connection_.OnZeroCopyReleased();
  EXPECT_EQ(connection_.Decide(), Step::kFree);
}

TEST_F(ConnectionTest, ItMovesToAnotherProcessorOnlyWithNothingPinned) {
  connection_.OnZeroCopyPinned();
  connection_.BeginMigration();
  Arm();
  EXPECT_NE(connection_.Decide(), Step::kDetach);
  connection_.OnZeroCopyReleased();
  EXPECT_EQ(connection_.Decide(), Step::kDetach);
}

}  // namespace
}  // namespace gyre
